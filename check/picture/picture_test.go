//go:build !small

package picture

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/picture"
	"shuultuur/lib/setting"
)

func photo(t testing.TB, seed uint64, shift int) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	var cells [8][8]uint8
	for y := range cells {
		for x := range cells[y] {
			cells[y][x] = uint8(r.IntN(200))
		}
	}
	m := image.NewRGBA(image.Rect(0, 0, 320, 256))
	for y := range 256 {
		for x := range 320 {
			v := cells[y/32][x/40] + uint8(shift)
			m.SetRGBA(x, y, color.RGBA{v, v / 2, 255 - v, 255})
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// skin returns a picture of one smooth colour with a border.
func skin(t testing.TB) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 320, 256))
	for y := range 256 {
		for x := range 320 {
			c := color.RGBA{40, 60, 160, 255}
			if x > 40 && x < 280 && y > 30 && y < 230 {
				c = color.RGBA{215, 165, 135, 255}
			}
			m.SetRGBA(x, y, c)
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func list(t testing.TB, name, text string) setting.File {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return setting.File(file)
}

func response(b []byte, media string) *filter.Transaction {
	t := &filter.Transaction{
		Request:  &message.Request{Method: "GET"},
		Response: &message.Response{Status: 200},
		Body:     new(content.Body),
	}
	t.Response.Add("Content-Type", media)
	t.Body.Reset(content.Describe(media, ""), content.Limits{})
	t.Body.Append(b)
	t.Body.Finish()
	return t
}

func find(t *testing.T, c *Check, b []byte) []filter.Finding {
	t.Helper()
	found, err := c.Find(t.Context(), response(b, "image/jpeg"), filter.ResponseBody, nil)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestListedPicturesAreFoundByEveryKindOfHash(t *testing.T) {
	b := photo(t, 1, 0)
	h, _, err := picture.PDQ(b)
	if err != nil {
		t.Fatal(err)
	}
	near := h
	for i := range picture.Near {
		near[i%4] ^= 1 << (i * 2)
	}
	far := near
	far[0] ^= 1 << 63
	p, err := picture.Shrink(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		list       HashList
		want       bool
	}{
		{"pdq", h.String(), HashList{}, true},
		{"pdq with comment", "# ours\n\n" + strings.ToUpper(near.String()) + "  # a near one\n", HashList{}, true},
		{"too far", far.String(), HashList{}, false},
		{"dhash", fmt.Sprintf("%016x", p.DHash()^3), HashList{}, true},
		{"dhash exactly", fmt.Sprintf("%016x", p.DHash()^3), HashList{Distance: 1}, false},
		{"csv", "hash,type,description\n" + h.String() + ",pdq,a picture\n", HashList{}, true},
		{"quality in the second column", h.String() + ",97\n", HashList{}, true},
		{"byte order mark and line ends of Windows", "\ufeffhash,type\r\n" + h.String() + ",PDQ\r\n", HashList{}, true},
		{"types that are not looked for", "indicator,type\nabc,HASH_TMK\n" + h.String() + ",HASH_PDQ\n", HashList{}, true},
		{"json of threatexchange", `{"data": [{"id": "1", "indicator": "` + h.String() + `", "type": "HASH_PDQ"}], "paging": {}}`, HashList{}, true},
		{"json array", `[{"indicator": "00", "type": "URI"}, {"hash": "` + h.String() + `", "type": "pdq"}]`, HashList{}, true},
		{"json lines", `{"hash": "` + h.String() + `", "type": "pdq"}` + "\n{}\n"[:1], HashList{}, true},
		{"semicolons", "\"hash\";\"type\"\r\n" + h.String() + ";pdq\r\n", HashList{}, true},
		{"tabs", "type\thash\nmd5\t" + strings.Repeat("0", 32) + "\npdq\t" + h.String() + "\n", HashList{}, true},
		{"a comment with a comma behind the first", "  " + h.String() + "  # large, red\n", HashList{}, true},
		{"lines within a field", "hash,note,type\n" + strings.Repeat("0", 32) + ",\"one\ntwo, \"\"three\"\"\",md5\n" + h.String() + ",x,pdq\n", HashList{}, true},
		{"threatexchange", "id,indicator,type\n1," + h.String() + ",HASH_PDQ\n", HashList{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.list.File = list(t, "list", c.text)
			k, err := New(Config{Hashes: map[string]HashList{"own": c.list}}, Parts{})
			if err != nil {
				t.Fatal(err)
			}
			found := find(t, k, b)
			if got := len(found) == 1 && found[0].Category == "picture/listed:own"; got != c.want {
				t.Errorf("the picture was found: %v, want %v", got, c.want)
			}
		})
	}
}

func TestExactHashesAreFoundInAnyBytes(t *testing.T) {
	for _, c := range []struct{ typ, media, text string }{
		{"md5", "image/jpeg", "GIF89a\x01\x00\x01\x00 not much of a picture"},
		{"sha256", "image/jpeg", "GIF89a\x01\x00\x01\x00 not much of a picture"},
		{"sha256", "image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg"><path d="M1 1"/></svg>`},
	} {
		b, typ := []byte(c.text), c.typ
		sum := map[string]string{"md5": fmt.Sprintf("%x", md5.Sum(b)), "sha256": fmt.Sprintf("%x", sha256.Sum256(b))}[typ]
		k, err := New(Config{Hashes: map[string]HashList{"own": {File: list(t, "l", sum+"\n"), Type: typ, Locked: true}}}, Parts{})
		if err != nil {
			t.Fatal(err)
		}
		found, err := k.Find(t.Context(), response(b, c.media), filter.ResponseBody, nil)
		if err != nil || len(found) != 1 || found[0].Evidence != "list own" {
			t.Errorf("%s: got %v, want the name of a locked list and no more", typ, found)
		}
	}
}

func TestMistakesInListsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"abc\n":                        `:1: "abc" is not a hash`,
		"# x\nzz00\n":                  `:2: "zz00" is not a hash`,
		strings.Repeat("0", 70000):     ":1: the line is longer than 64 KiB",
		`["abc"]`:                      "write objects with a text for indicator and type, not a string",
		`{"data": [{"indicator": 5}]}`: "not a number",
		`{"error": {"code": 190}}`:     `:1: "" is not a hash`,
		"name,colour\na,b\n":           "no column is called",
		"hash,type\nab,pdq\n":          `:2: "ab" is not a hash of type pdq`,
	} {
		_, err := New(Config{Hashes: map[string]HashList{"own": {File: list(t, "l", text)}}}, Parts{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("reading the list %q: %v, want an error with %q", text, err, want)
		}
	}
	if _, err := New(Config{}, Parts{}); err == nil {
		t.Error("a check that looks for nothing is accepted")
	}
}

func TestSkinIsAScoreAndNoVerdict(t *testing.T) {
	k, err := New(Config{Skin: true}, Parts{})
	if err != nil {
		t.Fatal(err)
	}
	much := find(t, k, skin(t))
	little := find(t, k, photo(t, 3, 0))
	if len(much) != 1 || len(little) != 1 || much[0].Score < 50 || little[0].Score > 20 {
		t.Errorf("much skin gave %v, little gave %v", much, little)
	}
	if again := find(t, k, skin(t)); len(again) != 1 || again[0] != much[0] {
		t.Errorf("the second time: got %v, want %v", again, much)
	}
}

func TestUnreadablePicturesAreReported(t *testing.T) {
	k, err := New(Config{Skin: true}, Parts{})
	if err != nil {
		t.Fatal(err)
	}
	b := photo(t, 4, 0)
	for name, c := range map[string]struct {
		b    []byte
		want int
	}{
		"cut":  {b[:len(b)/20], 1},
		"text": {[]byte("no picture at all"), 1},
		"icon": {[]byte("GIF89a\x10\x00\x10\x00aaaaaaaaaaaa"), 0},
		"bomb": {append([]byte("GIF89a\xff\xff\xff\xff"), make([]byte, 20)...), 1},
	} {
		found := find(t, k, c.b)
		if len(found) != c.want || c.want == 1 && found[0].Category != Unread {
			t.Errorf("%s: found %v, want %d findings", name, found, c.want)
		}
	}
}

func FuzzReadHashes(f *testing.F) {
	f.Add("hash,type\n00,pdq\n", "")
	f.Add(strings.Repeat("0f", 32)+"\n", "pdq")
	f.Fuzz(func(t *testing.T, text, typ string) {
		_, _ = readHashes(HashList{File: list(t, "l", text), Type: typ}, nil)
	})
}

func TestAProgressiveJPEGIsJudgedWhileItComes(t *testing.T) {
	b, err := os.ReadFile("testdata/progressive.jpg")
	if err != nil {
		t.Fatal(err)
	}
	k, err := New(Config{Skin: true}, Parts{})
	if err != nil {
		t.Fatal(err)
	}
	x := response(nil, "image/jpeg")
	x.Body.Reset(content.Describe("image/jpeg", ""), content.Limits{})
	first := 0
	for at := 0; at < len(b); at += 256 {
		x.Body.Append(b[at:min(at+256, len(b))])
		found, err := k.Find(t.Context(), x, filter.ResponseBody, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 && first == 0 {
			first = at + 256
			if found[0].Category != Skin || found[0].Score < 50 || !strings.HasPrefix(found[0].Evidence, "by its first scans: JPEG of 320 × 256") {
				t.Errorf("the first scans gave %v", found)
			}
		}
	}
	x.Body.Finish()
	whole, err := k.Find(t.Context(), x, filter.ResponseBody, nil)
	if err != nil || len(whole) != 1 || strings.Contains(whole[0].Evidence, "first scans") {
		t.Errorf("the complete picture gave %v, %v", whole, err)
	}
	if first == 0 || first > len(b)/2 {
		t.Errorf("the picture was judged after %d of %d bytes, want at most half", first, len(b))
	}
}

// TestPicturesAreThoseThatBrowsersShow: a browser that wants a picture goes by its bytes,
// whatever its declared type.
func TestPicturesAreThoseThatBrowsersShow(t *testing.T) {
	c := newCheck(t, Config{Skin: true}, nil)
	for _, x := range []struct {
		media, field, value string
		judged              bool
	}{
		{"text/plain", "Sec-Fetch-Dest", "image", true},
		{"text/html", "Sec-Fetch-Dest", "image", true},
		{"text/css", "Sec-Fetch-Dest", "image", true},
		{"video/mp4", "Sec-Fetch-Dest", "image", true},
		{"application/json", "Accept", "image/avif,image/webp,*/*;q=0.8", true},
		{"application/pdf", "Accept", "image/png,*/*", true},
		{"application/octet-stream", "Sec-Fetch-Dest", "empty", true},
		{"application/octet-stream", "Sec-Fetch-Dest", "document", false},
		{"video/mp4", "Sec-Fetch-Dest", "video", false},
		{"image/png", "Sec-Fetch-Dest", "empty", true},
	} {
		r := response(skin(t), x.media)
		r.Request.Add(x.field, x.value)
		if got := c.Wants(r, filter.ResponseBody); got != x.judged {
			t.Errorf("Wants for %s with %s %s returned %v, want %v", x.media, x.field, x.value, got, x.judged)
		}
		found, err := c.Find(t.Context(), r, filter.ResponseBody, nil)
		if err != nil || scoreOf(found, Skin) >= 50 != x.judged {
			t.Errorf("%s with %s %s gave %v, %v; want judged %v", x.media, x.field, x.value, found, err, x.judged)
		}
	}
	r := response([]byte("--x\r\nContent-Type: image/jpeg\r\n\r\n"), replaced+";boundary=x")
	r.Request.Add("Sec-Fetch-Dest", "image")
	if found, err := c.Find(t.Context(), r, filter.ResponseBody, nil); err != nil || scoreOf(found, Unread) < 0 {
		t.Errorf("an endless series of pictures gave %v, %v; want unread", found, err)
	}
}
