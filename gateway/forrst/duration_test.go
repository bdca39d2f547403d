package forrst_test

import "testing"

// A number that JSON Schema considers an integer is accepted in any form.
func TestWholeNumbers(t *testing.T) {
	_, d := startSite(t, nil)
	for _, value := range []string{"1", "1.0", "1e3", "1E+2", "10e-1", "9007199254740993", "1e400"} {
		d.call(t, "f.none", "", `{"key":"k","ttl":{"value":`+value+`,"unit":"second"}}`, 404, `"code":"FUNCTION_NOT_FOUND"`)
	}
	for _, value := range []string{"0", "-1", "-1e400", "1.5", "0.1", "1e-400", `"1"`, "null", "true", "[1]"} {
		d.call(t, "f.none", "", `{"key":"k","ttl":{"value":`+value+`,"unit":"second"}}`, 400, `a whole number, 1 or more`)
	}
	d.call(t, "f.none", "", `{"key":"k"}`, 400, `ttl must be an object with a value (a whole number, 1 or more) and a unit (second, minute, hour or day)`)
	d.call(t, "f.none", "", `{"key":"k","tll":{"value":1,"unit":"second"}}`, 400, `unknown field \"tll\" in options: options must be an object with no fields but key`)
}
