package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteTable writes the report as text: a table for each workload, and the notes.
func (r *Report) WriteTable(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n%s\n", r.Machine, r.settings())
	for _, workload := range WorkloadNames() {
		r.writeWorkload(&text, workload)
	}
	if len(r.Notes) > 0 {
		text.WriteString("\n" + strings.Join(r.Notes, "\n") + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (m Machine) String() string {
	return fmt.Sprintf("kvslots %s, %s, %s/%s, %d processors: %s", m.Version, m.Go, m.OS, m.Arch, m.Processors, m.Processor)
}

func (r *Report) settings() string {
	return fmt.Sprintf("%s; %d repetitions of %v, in turn; medians, and (least … most) of them", r.Begun.Format(time.DateTime),
		r.Repetitions, time.Duration(r.Duration*float64(time.Second)))
}

func (r *Report) writeWorkload(w io.Writer, workload string) {
	var rows []*Row
	for _, row := range r.Rows {
		if row.Workload == workload {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return
	}
	fmt.Fprintln(w)
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(columns, "%s\tsync\tin flight\tsize\tper second\t(spread)\tp50\tp99\tp99.9\terrors\tbesides\t\n", workload)
	for _, row := range rows {
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t\n", row.Transport, row.Sync, count(row.Clients), count(row.Size),
			row.rate(), row.latency("p50_us"), row.latency("p99_us"), row.latency("p999_us"), row.Errors, row.besides())
	}
	_ = columns.Flush() // fails only if w does
}

func count(n int) string {
	if n == 0 {
		return "–"
	}
	return fmt.Sprint(n)
}

func (r *Row) rate() string {
	s, ok := r.Values["per_second"]
	if !ok {
		return "–\t"
	}
	return fmt.Sprintf("%.0f\t(%.0f … %.0f)", s.Median, s.Min, s.Max)
}

func (r *Row) latency(name string) string {
	s, ok := r.Values[name]
	if !ok {
		return "–"
	}
	return round(time.Duration(s.Median * float64(time.Microsecond))).String()
}

func (r *Row) besides() string {
	var parts []string
	for _, name := range sortedKeys(r.Values) {
		if _, known := percentiles[name]; known || name == "per_second" {
			continue
		}
		parts = append(parts, name+" "+number(r.Values[name].Median))
	}
	return strings.Join(parts, ", ")
}
