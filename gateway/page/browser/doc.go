// Package browser has the tests of the page in a real browser, which `make test-browser` runs. It
// is a module of its own, so that no program that imports kvslots needs what drives the browser.
package browser
