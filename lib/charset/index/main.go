// Command index writes the tables of package charset. It asks Chromium to decode each byte and
// each sequence of two bytes, because tables must agree with browsers, and takes the encodings
// of MS-DOS from golang.org/x/text:
//
//	cd lib/charset && go generate
//
// For the format see [charset.Pack].
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"shuultuur/lib/charset"
)

// page prints, for each table, the code points of all its pointers in hexadecimal, "-" for
// undefined ones.
const page = `<!doctype html><pre id=out></pre><script>
function table(name, first, leads, trails, pointers) {
	const decoder = new TextDecoder(name), all = [];
	for (const lead of leads.length ? leads : [[]]) for (const trail of trails) {
		const s = decoder.decode(new Uint8Array([...first, lead, trail].flat())), points = [...s];
		const p = points.length == 1 ? s.codePointAt(0) : 0xFFFD;
		all.push(p == 0xFFFD || p >= 0xE000 && p < 0xF900 && name == 'shift_jis' ? '-' : p.toString(16));
	}
	return all.join(' ');
}
function four() {
	const decoder = new TextDecoder('gb18030'), all = [];
	for (let i = 0; i < 39420; i++) {
		const p = decoder.decode(new Uint8Array([0x81 + Math.floor(i/12600), 0x30 + Math.floor(i/1260) %% 10, 0x81 + Math.floor(i/10) %% 126, 0x30 + i %% 10])).codePointAt(0);
		all.push(p == 0xFFFD ? '-' : p.toString(16));
	}
	return all.join(' ');
}
function range(...bounds) {
	const all = [];
	for (let i = 0; i < bounds.length; i += 2) for (let b = bounds[i]; b <= bounds[i+1]; b++) all.push(b);
	return all;
}
document.getElementById('out').textContent = [
	table('big5', [], range(0x81, 0xFE), range(0x40, 0x7E, 0xA1, 0xFE)),
	table('euc-kr', [], range(0x81, 0xFE), range(0x41, 0xFE)),
	table('shift_jis', [], range(0x81, 0x9F, 0xE0, 0xFC), range(0x40, 0x7E, 0x80, 0xFC)),
	table('euc-jp', [0x8F], range(0xA1, 0xFE), range(0xA1, 0xFE)),
	table('gb18030', [], range(0x81, 0xFE), range(0x40, 0x7E, 0x80, 0xFE)),
	four(),
	...%s.map(name => table(name, [], [], range(0x80, 0xFF))),
].join('\n');
</script>`

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "index:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "index")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var names []string
	for _, s := range charset.SingleByte() {
		if dos[s] == nil {
			names = append(names, s.String())
		}
	}
	quoted, err := json.Marshal(names)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "page.html")
	if err := os.WriteFile(file, fmt.Appendf(nil, page, quoted), 0o600); err != nil {
		return err
	}
	out, err := exec.Command("chromium", "--headless", "--no-sandbox", "--user-data-dir="+dir, "--dump-dom", "file://"+file).Output()
	if err != nil {
		return fmt.Errorf("asking chromium: %w", err)
	}
	_, text, _ := strings.Cut(string(out), `<pre id="out">`)
	text, _, ok := strings.Cut(text, "</pre>")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if !ok || len(lines) != multibyte+len(names) {
		return fmt.Errorf("chromium printed %d tables, but %.200q", len(lines), out)
	}
	var many, single [][]rune
	for i, line := range lines {
		t, err := readTable(line)
		switch {
		case err != nil:
			return err
		case i < multibyte:
			many = append(many, t)
		default:
			for k, r := range t {
				if r == 0 {
					t[k] = utf8.RuneError
				}
			}
			single = append(single, t)
		}
	}
	for i, s := range charset.SingleByte() {
		if m := dos[s]; m != nil {
			t := make([]rune, 128)
			for k := range t {
				t[k] = m.DecodeByte(byte(0x80 + k))
			}
			single = slices.Insert(single, i, t)
		}
	}
	if err := write("multibyte.bin", many); err != nil {
		return err
	}
	return write("single.bin", single)
}

// multibyte is the number of tables that page prints before those for single bytes.
const multibyte = 6

// dos are the encodings that browsers do not support.
var dos = map[*charset.Single]*charmap.Charmap{
	charset.IBM437: charmap.CodePage437, charset.IBM850: charmap.CodePage850, charset.IBM852: charmap.CodePage852,
}

func readTable(line string) (t []rune, err error) {
	for s := range strings.FieldsSeq(line) {
		var r uint64
		if s != "-" {
			if r, err = strconv.ParseUint(s, 16, 21); err != nil {
				return nil, err
			}
		}
		t = append(t, rune(r))
	}
	return t, nil
}

func write(name string, tables [][]rune) error {
	packed, err := charset.Pack(tables)
	if err != nil {
		return err
	}
	return os.WriteFile(name, packed, 0o644)
}
