package oracle

import (
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/models"
)

// DenseSpecs are small networks of plain dense layers.
func DenseSpecs() map[string]models.Spec {
	return map[string]models.Spec{
		"actor-critic tanh": models.ActorCritic(5, 3, []int{7, 6}, models.Tanh),
		"actor-critic relu": models.ActorCritic(5, 3, []int{7, 6}, models.ReLU),
		"no hidden layers":  models.ActorCritic(4, 2, nil, ""),
		"one of everything": {
			Inputs: 1,
			Towers: []models.Tower{{Name: "t", Hidden: []int{1}, Activation: models.Tanh}},
			Heads:  []models.Head{{Name: "h", Size: 1, Gain: 1}},
		},
		"shared tower": {
			Inputs: 6,
			Towers: []models.Tower{
				{Name: "shared", Hidden: []int{8}, Activation: models.ReLU},
				{Name: "input"},
				{Name: "deep", Hidden: []int{3, 4, 5}, Activation: models.Tanh},
			},
			Heads: []models.Head{
				{Name: "a", Tower: 0, Size: 2, Gain: 1},
				{Name: "b", Tower: 1, Size: 3, Gain: 1},
				{Name: "c", Tower: 0, Size: 2, Gain: 1},
				{Name: "d", Tower: 2, Size: 4, Gain: 1},
			},
		},
	}
}

// Specs are small networks of all kinds except plain dense ones.
func Specs() map[string]models.Spec {
	norm := models.ActorCritic(5, 3, []int{7, 6}, models.Tanh)
	norm.Towers[0].LayerNorm, norm.Towers[1].LayerNorm = true, true
	normReLU := models.ActorCritic(5, 3, []int{9}, models.ReLU)
	normReLU.Towers[0].LayerNorm = true
	// nodes in the middle of an observation, edges and mask around them
	masked := &models.Edges{Offset: 22, N: 6, Masked: true, MaskOffset: 0}
	nodes := models.Nodes{Offset: 7, N: 4, Features: 3, Edges: masked}
	fixed := models.Nodes{Offset: 2, N: 5, Features: 2, Edges: &models.Edges{Fixed: [][2]int{{0, 1}, {2, 1}, {3, 4}, {4, 4}, {0, 1}}, Undirected: true}}
	plain := models.Nodes{Offset: 0, N: 6, Features: 4}
	both := models.NodeActorCritic(36, nodes, []int{6, 5}, models.Tanh, models.GCN, models.MeanMax, true)
	both.Towers[1].Layer, both.Towers[1].LayerNorm = models.SAGE, true
	deep := models.NodeActorCritic(36, nodes, []int{6, 5}, models.ReLU, models.SAGE, models.Mean, true)
	deep.Towers[2].Hidden, deep.Towers[2].Activation, deep.Towers[2].LayerNorm = []int{4}, models.Tanh, true
	deep.Heads[0].Size = 2
	dueling := models.NodeActorCritic(27, plain, []int{8, 7}, models.ReLU, "", models.MeanMax, true)
	dueling.Towers[1].LayerNorm = true
	detached := models.NodeActorCritic(24, plain, []int{5}, models.Tanh, "", models.Max, false)
	detached.Towers = append(detached.Towers, models.Tower{Name: "probe", Reads: detached.Towers[0].Name, Pool: models.Mean, Detach: true})
	detached.Towers = append(detached.Towers, models.Tower{Name: "again", Hidden: []int{3}, Activation: models.ReLU, Reads: detached.Towers[1].Name, Pool: models.MeanMax})
	detached.Heads = append(detached.Heads, models.Head{Name: "again_net", Tower: 4, Size: 2, Gain: 1})
	detached.Heads = append(detached.Heads, models.Head{Name: "probe_net", Tower: 3, Size: 2, Gain: 1})
	two := models.RecurrentActorCritic(4, 3, []int{5}, models.Tanh, 2, 6, models.CriticLSTM)
	unequal := models.RecurrentActorCritic(4, 3, []int{5}, models.Tanh, 2, 6, models.CriticLSTM)
	unequal.LSTMs[1].Hidden, unequal.LSTMs[1].Layers = 3, 1
	bare := models.RecurrentActorCritic(4, 3, nil, "", 1, 5, models.SharedLSTM)
	besideNodes := func(layer, pool string, wait bool, layers, cells int, critic string) models.Spec {
		if layer == "" {
			return models.WithLSTM(models.NodeActorCritic(27, plain, []int{5, 4}, models.Tanh, "", pool, wait), layers, cells, critic)
		}
		return models.WithLSTM(models.NodeActorCritic(36, nodes, []int{4, 3}, models.Tanh, layer, pool, wait), layers, cells, critic)
	}
	// Both towers propagate a gradient to one LSTM. Of two more towers, one is detached from it and
	// the other reads only it.
	many := besideNodes("", models.Max, true, 1, 3, models.SharedLSTM)
	many.Towers[1].Detach = false
	many.Towers = append(many.Towers, models.Tower{Name: "probe", Hidden: []int{4}, Activation: models.ReLU, Reads: models.NodeRows, Beside: "lstm_actor", Detach: true})
	many.Towers = append(many.Towers, models.Tower{Name: "alone", Reads: "lstm_actor"})
	many.Heads = append(many.Heads, models.Head{Name: "probe_net", Tower: len(many.Towers) - 2, Size: 2, Gain: 1}, models.Head{Name: "alone_net", Tower: len(many.Towers) - 1, Size: 2, Gain: 1})
	onlyNodes := models.WithLSTM(models.NodeActorCritic(6, models.Nodes{N: 3, Features: 2}, []int{4}, models.ReLU, "", models.Mean, false), 2, 1, models.CriticLSTM)
	return map[string]models.Spec{
		"nodes, lstm":            besideNodes("", models.MeanMax, false, 1, 4, models.CriticLSTM),
		"nodes, lstm, wait":      besideNodes("", models.Mean, true, 2, 3, models.CriticLSTM),
		"nodes, lstm, shared":    besideNodes("", models.MeanMax, true, 1, 4, models.SharedLSTM),
		"nodes, lstm, no critic": besideNodes("", models.Max, false, 1, 4, models.NoLSTM),
		"nodes, lstm of many":    many,
		"nodes only, lstm":       onlyNodes,
		"sage, lstm":             besideNodes(models.SAGE, models.MeanMax, true, 1, 3, models.CriticLSTM),
		"gcn, lstm, shared":      besideNodes(models.GCN, models.Mean, false, 1, 3, models.SharedLSTM),
		"layer norm":             norm,
		"layer norm, relu":       normReLU,
		"gaussian":               models.GaussianActorCritic(5, 2, []int{7}, models.Tanh, -0.5),
		"multi-discrete":         models.MultiDiscreteActorCritic(5, []int{2, 3}, []int{7}, models.Tanh),
		"nodes":                  models.NodeActorCritic(27, plain, []int{8, 7}, models.Tanh, "", models.Mean, false),
		"nodes, wait":            dueling,
		"nodes, detached":        detached,
		"sage, fixed":            models.NodeActorCritic(13, fixed, []int{6}, models.Tanh, models.SAGE, models.Max, true),
		"gcn, fixed":             models.NodeActorCritic(13, fixed, []int{6, 4}, models.Tanh, models.GCN, models.Mean, false),
		"sage, deep":             deep,
		"gcn and sage":           both,
		"lstm":                   models.RecurrentActorCritic(4, 3, []int{5}, models.Tanh, 1, 6, models.CriticLSTM),
		"lstm, two layers":       two,
		"lstm, shared":           models.RecurrentActorCritic(4, 3, []int{5}, models.ReLU, 1, 6, models.SharedLSTM),
		"lstm, no critic":        models.RecurrentActorCritic(4, 3, []int{5}, models.Tanh, 1, 6, models.NoLSTM),
		"lstms of two sizes":     unequal,
		"lstm, bare":             bare,
		"lstm of one cell":       models.RecurrentActorCritic(1, 1, []int{2}, models.Tanh, 2, 1, models.CriticLSTM),
	}
}

// Observations draws n observations of normal numbers, with edges between nodes.
func Observations(s models.Spec, n int, rng *rand.Rand) []float32 {
	obs := make([]float32, n*s.Inputs)
	for r := range n {
		row := obs[r*s.Inputs : (r+1)*s.Inputs]
		for i := range row {
			row[i] = float32(rng.NormFloat64())
		}
		if s.Nodes == nil || s.Nodes.Edges == nil {
			continue
		}
		e := s.Nodes.Edges
		for i := range e.N {
			row[e.Offset+2*i], row[e.Offset+2*i+1] = float32(rng.IntN(s.Nodes.N)), float32(rng.IntN(s.Nodes.N))
			if e.Masked {
				if rng.IntN(2) == 0 {
					row[e.MaskOffset+i] = 1
				} else {
					row[e.Offset+2*i] = -1 // masked, and so ignored
					row[e.MaskOffset+i] = 0
				}
			}
		}
	}
	return obs
}
