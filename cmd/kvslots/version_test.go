package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestBuildOf(t *testing.T) {
	recorded := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "ace7ccb"}
	time := debug.BuildSetting{Key: "vcs.time", Value: "2026-11-22T06:00:00Z"}
	modified := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for _, c := range []struct {
		name   string
		linked build
		info   *debug.BuildInfo // nil if there is none
		want   build
	}{
		{"nothing", build{}, nil, build{"unknown", "", ""}},
		{"no version control", build{}, recorded("(devel)"), build{"(devel)", "", ""}},
		{"go build", build{}, recorded("v1.2.3", revision, time), build{"v1.2.3", "ace7ccb", "2026-11-22T06:00:00Z"}},
		{"uncommitted changes", build{}, recorded("v1.2.3", revision, time, modified), build{"v1.2.3", "ace7ccb-dirty", "2026-11-22T06:00:00Z"}},
		{"linker", build{"v2", "b0a3431", "2027"}, recorded("v1.2.3", revision, time), build{"v2", "b0a3431", "2027"}},
		{"linker without a commit", build{version: "v2"}, recorded("v1.2.3", revision, time), build{"v2", "ace7ccb", "2026-11-22T06:00:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			was := build{version, commit, date}
			t.Cleanup(func() { version, commit, date = was.version, was.commit, was.date })
			version, commit, date = c.linked.version, c.linked.commit, c.linked.date
			if got := buildOf(c.info, c.info != nil); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	if line := (build{"v1", "ace7ccb", "2026"}).String(); !strings.HasPrefix(line, "v1 (commit ace7ccb, 2026, nats-server ") {
		t.Error(line)
	}
}
