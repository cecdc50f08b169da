//go:build nogorgonia

package play

import (
	"fmt"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/models"
)

// newGorgonia rejects the engine gorgonia, which wheels omit because of its size.
func newGorgonia(models.Spec, *rand.Rand) (Network, error) {
	return nil, fmt.Errorf("this program is built without engine %s; %s gives the same networks, and go build ./trainer has both", EngineGorgonia, EngineFused)
}
