package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kvslots/kvslots/kvslots"
)

// table returns rows as lines with aligned columns, without a newline at the end. No cell has a
// tab or a newline: see legible.
func table(rows [][]string) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // a strings.Builder does not fail
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// age formats a time that has passed, or is left, such as 3m12s or 2d5h.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0).Truncate(time.Second); {
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return d.String()
}

// legible quotes a text with characters that may control a terminal, or that are not seen: any
// client may have written it.
func legible(text string) string {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || kvslots.IsHidden(r) }) {
		return strconv.Quote(text)
	}
	return text
}
