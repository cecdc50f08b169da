package main

import (
	"context"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/launch"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// composeService holds the fields of a service of compose.yaml that the tests read.
type composeService struct {
	Build      string   `yaml:"build"`
	Command    []string `yaml:"command"`
	WorkingDir string   `yaml:"working_dir"`
	Volumes    []string `yaml:"volumes"`
}

// image is a folder from which an image is built, as its Dockerfile places it.
type image struct {
	t      *testing.T
	folder string
	places [][2]string // path in the folder, path in the image
}

// readImage reads the COPY lines of the Dockerfile in the folder.
func readImage(t *testing.T, folder string) image {
	t.Helper()
	text := envstest.Read(t, filepath.Join(folder, "Dockerfile"))
	m := image{t: t, folder: folder}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 2 && words[0] == "COPY" {
			m.places = append(m.places, [2]string{words[len(words)-2], words[len(words)-1]})
		}
	}
	return m
}

// host returns the file of the folder that is at the path in the image.
func (m image) host(inImage, workingDir string) string {
	m.t.Helper()
	if !path.IsAbs(inImage) {
		inImage = path.Join("/", workingDir, inImage)
	}
	for _, p := range m.places {
		if rest, ok := strings.CutPrefix(inImage, p[1]+"/"); ok {
			return filepath.Join(m.folder, p[0], rest)
		}
	}
	m.t.Fatalf("%s is not in the image, which holds %v", inImage, m.places)
	return ""
}

var composeVariable = regexp.MustCompile(`\$\{(\w+)(?::-([^}]*))?\}`)

// arguments returns the service's command with these variables set, and files of the image in the
// place of their paths in it.
func (s *composeService) arguments(m image, variables map[string]string) []string {
	var args []string
	for _, word := range s.Command {
		word = composeVariable.ReplaceAllStringFunc(word, func(v string) string {
			parts := composeVariable.FindStringSubmatch(v)
			if value := variables[parts[1]]; value != "" {
				return value
			}
			return parts[2]
		})
		if file, ok := strings.CutPrefix(word, "--model="); ok {
			word = "--model=" + m.host(file, s.WorkingDir)
		}
		args = append(args, word)
	}
	return args
}

// readCompose prepares the folders of the images but for the programs, and returns the services
// and the trainer's image.
func readCompose(t *testing.T) (map[string]composeService, image) {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("needs make, which prepares the folders of the images: install it")
	}
	cache := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "make", "-C", "..", "--no-print-directory", "image-folders", "CACHE="+cache)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	text, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]composeService `yaml:"services"`
	}
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	return compose.Services, readImage(t, filepath.Join(cache, "images", "trainer"))
}

// TestComposeTakesPretrainedModels runs the commands of compose's services with pretrained models,
// which it finds in the image's folder, and with a model of the volume, which it does not.
func TestComposeTakesPretrainedModels(t *testing.T) {
	services, m := readCompose(t)
	for name, want := range map[string]string{"evaluate": "trainer", "scheduler": "scheduler"} {
		if got := services[name].Build; got != ".cache/images/"+want {
			t.Errorf("service %s is built from %q, want the folder of the %s", name, got, want)
		}
	}
	all, err := filepath.Glob("../models/pretrained/*/*.safetensors")
	if err != nil || len(all) == 0 {
		t.Fatalf("no pretrained models: %v", err)
	}
	for _, file := range all {
		name := filepath.ToSlash(strings.TrimPrefix(file, "../models/"))
		inImage, err := os.ReadFile(m.host("/models/"+name, ""))
		if want, _ := os.ReadFile(file); err != nil || string(inImage) != string(want) {
			t.Errorf("/models/%s is not in the image: %v", name, err)
		}
	}
	const pretrained = "/models/pretrained/k8s-PodBalance-v0/ppo.safetensors"
	evaluate := services["evaluate"]
	args := evaluate.arguments(m, map[string]string{"MODEL": pretrained, "EPISODES": "1"})
	if out := mustExecute(t, append(args, "--env-kwargs", "steps:5")...); !strings.Contains(out, "ppo on k8s/PodBalance-v0: mean return") {
		t.Errorf("evaluate printed %q, want the returns of the model", out)
	}
	// On the twin it asks for the API server, and for nothing else.
	t.Setenv(kwok.KubeconfigVariable, "")
	args = evaluate.arguments(m, map[string]string{"MODEL": pretrained, "EVALUATE_ENV": "k8s/PodBalanceKwok-v0"})
	if _, _, err := execute(t, context.Background(), args...); err == nil || !strings.Contains(err.Error(), kwok.KubeconfigVariable) {
		t.Errorf("evaluate on the twin: %v, want an error about the control plane alone", err)
	}
	scheduler := services["scheduler"]
	args = scheduler.arguments(m, map[string]string{"SCHEDULE_BY": "--model=" + pretrained})
	t.Setenv(play.TokenVariable, "secret")
	t.Setenv(launch.SchedulerEnv, "/bin/true") // found beside the trainer in the image
	if _, _, err := execute(t, context.Background(), args...); err == nil || !strings.Contains(err.Error(), kwok.KubeconfigVariable) {
		t.Errorf("schedule: %v, want an error about the control plane alone", err)
	}
	// A saved model is below the log folder, as before.
	if got := path.Join(evaluate.WorkingDir, "ppo/x"); got != "/logs/ppo/x" || !strings.Contains(strings.Join(evaluate.Volumes, " "), "logs:/logs") {
		t.Errorf("a saved model is looked for at %s in the volumes %v, want below /logs", got, evaluate.Volumes)
	}
}
