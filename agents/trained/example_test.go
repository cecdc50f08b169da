package trained_test

import (
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/agents/trained"
)

func Example() {
	p, err := trained.Open("../../models/pretrained/classic-CartPole-v1/ppo.safetensors")
	if err != nil {
		log.Fatal(err)
	}
	obs := []float32{0, 0, 0.1, 0.5} // the pole falls to the right
	action := make([]float32, 1)
	if err := p.Act(obs, nil, action); err != nil {
		log.Fatal(err)
	}
	fmt.Println("push to the right:", action[0] == 1)

	// Only the left is permitted.
	if err := p.Act(obs, []bool{true, false}, action); err != nil {
		log.Fatal(err)
	}
	fmt.Println("push to the right:", action[0] == 1)

	probs := make([]float32, p.MaskSize())
	if err := p.Probabilities(obs, nil, probs); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("probability of the right: above 0.99: %t\n", probs[1] > 0.99)

	rng := rand.New(rand.NewPCG(1, 2)) // equal seeds draw equal actions
	if err := p.Sample(rng, obs, nil, action); err != nil {
		log.Fatal(err)
	}
	fmt.Println("push to the right:", action[0] == 1)
	// Output:
	// push to the right: true
	// push to the right: false
	// probability of the right: above 0.99: true
	// push to the right: true
}
