package content_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/test/reading"
)

// TestOddFormsAndJSON: uploads are read however they are divided.
func TestOddFormsAndJSON(t *testing.T) {
	const form = "multipart/form-data; boundary="
	part := func(boundary, text string) string {
		return "--" + boundary + "\r\nContent-Disposition: form-data; name=q\r\n\r\n" + text + "\r\n--" + boundary + "--\r\n"
	}
	for _, c := range []struct{ name, typ, in, want string }{
		{"form", form + "b", part("b", "words"), " q words "},
		{"quoted boundary", form + `"a b"`, part("a b", "words"), " q words "},
		{"boundary with dashes", form + "----b", part("----b", "words"), " q words "},
		{"another boundary", form + "x", part("b", "words"), " b content disposition form data name q words b "},
		{"two boundaries, the second counts", form + "x; boundary=b", part("b", "words"), " b content disposition form data name q words b "},
		{"line that only begins like a boundary", form + "b", part("b", "--bX\r\nsecret words\r\n\r\nmore"), " q bx secret words more "},
		{"boundary and blanks", form + "b", strings.Replace(part("b", "words"), "--b\r", "--b \t\r", 1), " q words "},
		{"after the end", form + "b", part("b", "words") + "secret", " q words secret "},
		{"before the beginning", form + "b", "secret\r\n" + part("b", "words"), " secret q words "},
		{"no end", form + "b", strings.TrimSuffix(part("b", "words"), "\r\n--b--\r\n"), " q words "},
		{"bare line feeds", form + "b", strings.ReplaceAll(part("b", "words"), "\r", ""), " q words "},
		{"prompt", "application/json", `{"messages":[{"role":"user","content":"po\u0072n \"x\"\nnext"}]}`, " messages role user content porn x next "},
		{"prompt in a string of JSON", "application/json", `[["wrb.fr","[\"po\\u0072n\\nnext\",\"\\ud835\\udc29orn\"]"]]`, " wrb fr porn next porn "},
		{"deeper", "application/json", `{"a":"{\"b\":\"{\\\"c\\\":\\\"po\\\\u0072n\\\\nnext\\\"}\"}"}`, " a b c porn next "},
		{"path", "application/json", `{"a":"C:\\new\\users\\x"}`, " a c new users x "},
	} {
		var b content.Body
		b.Reset(content.Describe(c.typ, ""), content.Limits{})
		b.Append([]byte(c.in))
		b.Finish()
		got, err := b.Text()
		if string(got) != c.want || err != nil {
			t.Errorf("%s: the text is %q, %v, want %q", c.name, got, err, c.want)
		}
		b.Release()
		r := rand.New(rand.NewPCG(3, 4))
		for range 20 {
			if got, _ := reading.In(t, content.Describe(c.typ, ""), []byte(c.in), content.Limits{}, r); got != c.want {
				t.Errorf("%s in pieces: the text is %q, want %q", c.name, got, c.want)
				break
			}
		}
	}
}
