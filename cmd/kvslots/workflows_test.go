package main

import (
	"path/filepath"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// Workflows name actions by digest, and no job that may write runs what is in the repository.
func TestWorkflows(t *testing.T) {
	digest := regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`)
	repository := regexp.MustCompile(`\b(make|go|npm) |actions/checkout`)
	for _, name := range []string{"check.yml", "release.yml"} {
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Permissions map[string]string
				Env         map[string]string
				Steps       []struct{ Uses, Run string }
			}
		}
		kvslotstest.Must(t, yaml.Unmarshal([]byte(readDocument(t, filepath.Join(".github/workflows", name))), &workflow))
		if workflow.Permissions == nil || mayWrite(workflow.Permissions) {
			t.Errorf("%s: every job has %v", name, workflow.Permissions)
		}
		for of, job := range workflow.Jobs {
			if job.Env["GH_TOKEN"] != "" {
				t.Errorf("%s: every step of %s has a token", name, of)
			}
			for _, step := range job.Steps {
				if step.Uses != "" && !digest.MatchString(step.Uses) {
					t.Errorf("%s: %s uses %s, without a digest", name, of, step.Uses)
				}
				if mayWrite(job.Permissions) && repository.MatchString(step.Uses+step.Run) {
					t.Errorf("%s: %s may write, and runs %s%s", name, of, step.Uses, step.Run)
				}
			}
		}
	}
}

func mayWrite(permissions map[string]string) bool {
	for _, access := range permissions {
		if access != "read" {
			return true
		}
	}
	return false
}
