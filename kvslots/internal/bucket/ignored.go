package bucket

// maxIgnored is how many foreign or corrupt entries are logged at most.
const maxIgnored = 1000

// ignore counts a foreign or corrupt entry, and reports whether to log it, which it does
// once for each key.
func (g *guarded) ignore(key string) bool {
	g.foreign++
	if _, known := g.ignored[key]; known || len(g.ignored) == maxIgnored {
		return false
	}
	g.ignored[key] = struct{}{}
	return true
}
