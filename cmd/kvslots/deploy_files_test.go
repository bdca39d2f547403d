package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// process is a program that a file below deploy runs, with its environment.
type process struct {
	name string
	args []string
	env  map[string]string
}

// deployedProcesses returns what the image, the unit, the compose files and the manifests
// run of kvslots.
func deployedProcesses(t *testing.T) []process {
	t.Helper()
	image := readDockerfile(t)
	found := []process{
		{"Dockerfile", append(image.entrypoint[1:], image.cmd...), image.env},
		{"Dockerfile's health check", image.health[1:], nil},
		unitProcess(t),
	}
	for _, name := range composeFiles {
		for service, s := range readCompose(t, name).Services {
			if strings.Contains(s.Image, "kvslots") {
				found = append(found, process{name + " " + service, image.cmd, merged(image.env, s.Environment)})
			}
		}
	}
	for _, name := range manifestFiles {
		for _, o := range readManifests(t, name) {
			for _, c := range o.Spec.Template.Spec.Containers {
				found = append(found, process{name + " " + o.Kind, c.Args, merged(image.env, c.env())})
			}
		}
	}
	return found
}

func merged(one, other map[string]string) map[string]string {
	env := maps.Clone(one)
	maps.Copy(env, other)
	return env
}

func readDeploy(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("deploy", filepath.FromSlash(name)))
	kvslotstest.Must(t, err)
	return string(content)
}

// dockerfile is the last stage of the Dockerfile.
type dockerfile struct {
	env                     map[string]string
	entrypoint, cmd, health []string
}

func readDockerfile(t *testing.T) (d dockerfile) {
	t.Helper()
	text := strings.ReplaceAll(readDeploy(t, "Dockerfile"), "\\\n", " ")
	d.env = map[string]string{}
	for line := range strings.Lines(text[strings.LastIndex(text, "\nFROM "):]) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch instruction {
		case "ENV":
			for _, pair := range strings.Fields(rest) {
				name, value, _ := strings.Cut(pair, "=")
				d.env[name] = value
			}
		case "ENTRYPOINT":
			d.entrypoint = parseWords(t, rest)
		case "CMD":
			d.cmd = parseWords(t, rest)
		case "HEALTHCHECK":
			_, command, _ := strings.Cut(rest, "CMD ")
			d.health = parseWords(t, command)
		}
	}
	return d
}

// parseWords parses the form of a command in which no shell runs it.
func parseWords(t *testing.T, text string) (words []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &words); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return words
}

const unitFile = "systemd/kvslots.service"

// readUnit returns the values of a unit's settings.
func readUnit(t *testing.T) map[string][]string {
	t.Helper()
	settings := map[string][]string{}
	for line := range strings.Lines(readDeploy(t, unitFile)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			settings[name] = append(settings[name], value)
		}
	}
	return settings
}

func unitProcess(t *testing.T) process {
	t.Helper()
	unit, env := readUnit(t), map[string]string{}
	for _, line := range unit["Environment"] {
		name, value, _ := strings.Cut(line, "=")
		env[name] = strings.ReplaceAll(value, "%S", "/var/lib")
	}
	return process{unitFile, strings.Fields(unit["ExecStart"][0])[1:], env}
}

var composeFiles = []string{"compose/compose.yaml", "compose/cluster.yaml"}

type composeFile struct {
	Services map[string]struct {
		Image       string
		Environment map[string]string
	}
}

func readCompose(t *testing.T, name string) (file composeFile) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(readDeploy(t, name)), &file); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return file
}

var manifestFiles = []string{"kubernetes/deployment.yaml", "kubernetes/statefulset.yaml"}

// manifest has the fields of Kubernetes objects that tests look at.
type manifest struct {
	Kind string
	Spec struct {
		Template struct {
			Spec struct{ Containers []container }
		}
	}
}

type container struct {
	Args []string
	Env  []struct{ Name, Value string }
}

func (c container) env() map[string]string {
	env := map[string]string{}
	for _, variable := range c.Env {
		env[variable.Name] = variable.Value
	}
	return env
}

func readManifests(t *testing.T, name string) (objects []manifest) {
	t.Helper()
	for decoder := yaml.NewDecoder(bytes.NewReader([]byte(readDeploy(t, name)))); ; {
		var o manifest
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		objects = append(objects, o)
	}
}
