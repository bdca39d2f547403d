package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// clientPage uses the client for TypeScript against a gateway of another origin, whose URL is %[1]s. %[2]s is a
// pool of one slot.
const clientPage = `<!doctype html><title>waits</title><script type="module">
import { Client, NoSlotError } from './index.js';
const check = (right, what) => { if (!right) throw new Error(what); };
try {
  const client = new Client('%[1]s');
  const pool = client.pool('%[2]s');
  const events = pool.events({ types: ['granted', 'returned'] })[Symbol.asyncIterator]();
  const first = events.next();
  const lease = await pool.borrow({ ttl: 3, label: 'the tab' });
  check(lease.position === 0 && lease.fence > 0 && !lease.lost.aborted, 'the lease');
  const refused = await pool.borrow({ wait: 0 }).catch((error) => error);
  check(refused instanceof NoSlotError && refused.place === 1, 'the refusal: ' + refused);
  const abort = new AbortController();
  const leaving = pool.borrow({ signal: abort.signal }).catch((error) => error.name);
  while ((await pool.line()).length < 1) await new Promise((done) => setTimeout(done, 20));
  abort.abort();
  check(await leaving === 'AbortError' && (await pool.line()).length === 0, 'the line');
  const waiting = pool.borrow({ wait: 30 });
  check(await lease.release() === true, 'the release');
  const next = await waiting;
  check(next.fence > lease.fence && await next.release(), 'the next slot');
  check(await client.lock('tab').using(async ({ fence }) => fence) > 0, 'the lock');
  check(!(await first).done, 'the events');
  await events.return?.();
  await client.close();
  document.title = 'done';
} catch (error) {
  document.title = String(error) + ' ' + error.stack;
}
</script>`

// The client for TypeScript works in a page of another origin.
func TestTypeScriptClient(t *testing.T) {
	files := buildClient(t)
	var g *gateway
	pool := id(1)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.FileServer(http.Dir(files)).ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, clientPage, g.url(), pool)
	}))
	t.Cleanup(site.Close)
	g = serve(t, "--http-cors-allowed-origins", site.URL)
	g.register(t, pool, 1, "")
	tab, end := chromedp.NewContext(chromium)
	defer end()
	if err := chromedp.Do(tab, chromedp.Navigate(site.URL)); err != nil {
		t.Fatal(err)
	}
	title := "waits"
	eventually(t, "the outcome of the page", func() bool {
		now, err := chromedp.Run(tab, chromedp.Title())
		title = now
		return err == nil && title != "" && title != "waits"
	})
	if title != "done" {
		t.Error(title)
	}
}

// buildClient compiles the client, and returns the directory of its modules. It skips the test without npm, or the
// compiler.
func buildClient(t *testing.T) string {
	t.Helper()
	const from = "../../../kvslots/client/typescript"
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "src"), os.DirFS(filepath.Join(from, "src"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"package.json", "package-lock.json", "tsconfig.json"} {
		content, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("npm cannot install the compiler: %v\n%s", err, out)
	}
	build := exec.Command("npm", "run", "build", "--silent")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "dist")
}
