package promisestest

type call struct {
	URL    string  `json:"url"`
	Do     string  `json:"do"`
	Pool   string  `json:"pool"`
	Name   string  `json:"name"`
	TTL    int     `json:"ttl"`
	Wait   int     `json:"wait"`
	Cancel float64 `json:"cancel"`
	Lookup float64 `json:"lookup"`
	Pairs  int     `json:"pairs"`
	Hold   bool    `json:"hold"`
}

type outcome struct {
	Outcome  string  `json:"outcome"`
	Took     float64 `json:"took"`
	Back     string  `json:"back"`
	BackTook float64 `json:"back_took"`
	CPU      float64 `json:"cpu"`
}

// promise is a case: a call, what the proxy does, and what the client promises then.
type promise struct {
	name      string
	do        string
	taken     bool // by another client
	evicted   bool // while the driver holds it
	second    bool // taken, until the last second of the wait, and a second client waits behind the call
	wait      int
	cancel    float64
	lookup    float64 // seconds
	calls     int     // 0: one
	faults    []fault
	twoStores bool // the URL has a second address, of a gateway with another store
	want      string
	least     float64 // seconds
	most      float64 // on an idle machine: see slack
}

const (
	borrow, lock = "borrow", "lock"

	granted, taken, unavailable, foreign, canceled, twoStores, lost = "granted", "taken", "unavailable", "foreign", "canceled", "two stores", "lost"
)

const (
	toBorrow, toReturn     = "/borrow", "/return"
	toSessions, endSession = "/v1/sessions", "DELETE "
	toLock                 = "/v1/locks/"
)

// promises are the cases. See slack for the upper bounds.
var promises = []promise{
	{name: "no fault", do: borrow, want: granted, most: 1.5},
	{name: "no fault", do: lock, want: granted, most: 1.5},
	{name: "taken", do: borrow, taken: true, want: taken, most: 1.5},
	{name: "taken", do: lock, taken: true, wait: 1, want: taken, least: 0.9, most: 4.5},
	{name: "waits in vain", do: borrow, taken: true, wait: 3, calls: 3, want: taken, least: 2.9, most: 6.5},
	{name: "waits in vain", do: lock, taken: true, wait: 3, want: taken, least: 2.9, most: 6.5},
	{name: "given back in the last second", do: borrow, second: true, wait: 3, want: granted, least: 1.9, most: 4},
	{name: "given back in the last second", do: lock, second: true, wait: 3, want: granted, least: 1.9, most: 4},
	{name: "evicted", do: borrow, evicted: true, want: lost, most: 6},
	{name: "evicted", do: lock, evicted: true, want: lost, most: 6},
	{name: "accepts and never answers", do: borrow, faults: all(hangs), want: unavailable, most: 3.5},
	{name: "accepts and never answers", do: lock, faults: all(hangs), want: unavailable, most: 3.5},
	{name: "accepts and never answers, wait 1 s", do: borrow, wait: 1, faults: all(hangs), want: unavailable, most: 4.5},
	{name: "a lost request", do: borrow, faults: once(toBorrow, losesRequest), want: granted, most: 3},
	{name: "two connections reset", do: borrow, faults: []fault{{toBorrow, 2, resets}}, want: granted, most: 3},
	{name: "a lost answer", do: borrow, faults: once(toBorrow, losesAnswer), want: granted, most: 3},
	{name: "a lost answer", do: lock, faults: once(toLock+"x", losesAnswer), want: granted, most: 3},
	{name: "a lost answer with a session", do: lock, faults: once(toSessions, losesAnswer), want: granted, most: 3},
	{name: "two lost answers to a return", do: borrow, faults: []fault{{toReturn, 2, losesAnswer}}, want: granted, most: 1.5},
	{name: "away when it returns", do: borrow, faults: []fault{{toReturn, 3, refuses(503, "")}}, want: granted, most: 1.5},
	{name: "a lost answer to an unlock", do: lock, faults: once("/release", losesAnswer), want: granted, most: 1.5},
	{name: "a lost answer to an end", do: lock, faults: once(endSession, losesAnswer), want: granted, most: 1.5},
	{name: "503, Retry-After 1", do: borrow, wait: 5, faults: once(toBorrow, refuses(503, "1")), want: granted, least: 0.9, most: 4},
	{name: "503, Retry-After 30, wait 5 s", do: borrow, wait: 5, faults: all(refuses(503, "30")), want: unavailable, most: 1.5},
	{name: "503, Retry-After 30, wait 5 s", do: lock, wait: 5, faults: []fault{{to: toLock + "x", do: refuses(503, "30")}}, want: unavailable, most: 1.5},
	{name: "never answers a lock, wait 1 s", do: lock, wait: 1, faults: []fault{{to: toLock + "x", do: hangs}}, want: unavailable, most: 4.5},
	{name: "503, no wait", do: borrow, faults: all(refuses(503, "")), want: unavailable, most: 3.5},
	{name: "429, wait 5 s", do: borrow, wait: 5, faults: once(toBorrow, refuses(429, "")), want: granted, most: 4},
	{name: "{}", do: borrow, faults: all(says("application/json", "{}")), want: foreign, most: 1.5},
	{name: "{}", do: lock, faults: all(says("application/json", "{}")), want: foreign, most: 1.5},
	{name: "HTML", do: borrow, faults: all(says("text/html", "<html>Sign in</html>")), want: foreign, most: 1.5},
	{name: "delayed by 0.5 s", do: borrow, faults: all(delays), want: granted, least: 0.4, most: 3},
	{name: "trickled", do: lock, faults: all(trickles), want: granted, most: 3},
	{name: "a name server that takes 0.5 s", do: borrow, lookup: 0.5, want: granted, least: 0.4, most: 3},
	{name: "a name server that takes 8 s", do: borrow, lookup: 8, want: unavailable, most: 3.5},
	{name: "a name server that takes 8 s, wait 1 s", do: lock, wait: 1, lookup: 8, want: unavailable, most: 4.5},
	{name: "3 of 10 answers are lost", do: borrow, calls: 8, wait: 9, faults: all(losesSome()), want: granted, most: 9},
	{name: "two stores", do: borrow, twoStores: true, faults: all(away), want: twoStores, most: 1.5},
	{name: "two stores", do: lock, twoStores: true, faults: []fault{{to: toLock + "x", do: away}}, want: twoStores, most: 1.5},
	{name: "canceled", do: borrow, taken: true, wait: 30, cancel: 0.5, want: canceled, most: 2.5},
	{name: "canceled", do: lock, taken: true, wait: 30, cancel: 0.5, want: canceled, most: 2.5},
}

func all(do func(*exchange)) []fault { return []fault{{do: do}} }

func once(to string, do func(*exchange)) []fault { return []fault{{to, 1, do}} }
