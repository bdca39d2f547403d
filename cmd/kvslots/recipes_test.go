package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const recipes = "cmd/kvslots/RECIPES.md"

// Each recipe is run by TestManualSessions, and its session has no more than 15 lines.
func TestDocumentRecipes(t *testing.T) {
	chapters := strings.Split(readDocument(t, recipes), "\n## ")[1:]
	if len(chapters) < 6 {
		t.Fatalf("found only %d recipes", len(chapters))
	}
	for _, chapter := range chapters {
		title, text, _ := strings.Cut(chapter, "\n")
		_, session, _ := strings.Cut(text, "```console\n")
		session, _, _ = strings.Cut(session, "```")
		if lines := strings.Count(session, "\n"); lines == 0 || lines > 15 {
			t.Errorf("%s: the session has %d lines, want 1 to 15", title, lines)
		}
	}
}

// The recipe's SQL refuses a fence that is lower than one that has written.
func TestRecipeInSQL(t *testing.T) {
	sqlite, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip(err)
	}
	block := regexp.MustCompile("(?s)```sql\n(.*?)```").FindStringSubmatch(readDocument(t, recipes))
	if block == nil {
		t.Fatalf("%s has no SQL", recipes)
	}
	script := "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, fence BIGINT NOT NULL DEFAULT 0);\n" +
		"INSERT INTO account (id, balance) VALUES (7, 100);\n"
	const first, second = 1795449202001374, 1795449202252729
	for _, fence := range []int{first, second, first, second} {
		script += fmt.Sprintf(".parameter set :fence %d\n%sSELECT changes();\n", fence, block[1])
	}
	command := exec.Command(sqlite, "-batch", filepath.Join(t.TempDir(), "bank.db"))
	command.Stdin = strings.NewReader(script + "SELECT balance, fence FROM account;\n")
	out, err := command.CombinedOutput()
	if want := fmt.Sprintf("1\n1\n0\n1\n70|%d\n", second); err != nil || string(out) != want {
		t.Errorf("%v, output %q, want %q", err, out, want)
	}
}
