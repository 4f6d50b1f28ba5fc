package mail

import (
	"fmt"
	"strings"
	"testing"
)

// Files of mails are found by their names, in whatever parts and codings they are.
func TestFilesInMails(t *testing.T) {
	const mixed = "Content-Type: multipart/mixed; boundary=\"b\"\n\npreamble\n--b\n"
	for name, x := range map[string]struct {
		text string
		want string // "name=data" of each file, "..." behind one that is cut
	}{
		"plain":                  {"Subject: a\n\nhello", ""},
		"the whole mail":         {"Content-Type: text/plain; name=a.txt\n\nabc", "a.txt=abc"},
		"an attachment":          {mixed + "Content-Disposition: attachment; filename=\"a b.txt\"\n\nabc\n--b--\n", "a b.txt=abc"},
		"two":                    {mixed + "Content-Type: x/y; name=a\n\n1\n--b\nContent-Type: x/y; name=b\n\n2\n--b--\n", "a=1 b=2"},
		"base64":                 {mixed + "Content-Type: x/y; name=a\nContent-Transfer-Encoding: base64\n\nYWJj\nZGU=\n--b--\n", "a=abcde"},
		"base64 with rubbish":    {mixed + "Content-Type: x/y; name=a\nContent-Transfer-Encoding: base64\n\nYW#Jj\n--b--\n", "a=abc"},
		"quoted":                 {mixed + "Content-Type: x/y; name=a\nContent-Transfer-Encoding: quoted-printable\n\na=3Db=\nc=ZZ\n--b--\n", "a=a=bc=ZZ"},
		"cut":                    {mixed + "Content-Type: x/y; name=a\n\nab", "a=ab..."},
		"no part":                {mixed + "--b--\n", ""},
		"a mail in a mail":       {"Content-Type: message/rfc822; name=outer\nContent-Transfer-Encoding: base64\n\nContent-Type: x/y; name=inner\n\nabc", "inner=abc"},
		"parts in parts":         {mixed + "Content-Type: multipart/related; boundary=c\n\n--c\nContent-Type: x/y; name=a\n\n1\n--c--\n--b--\n", "a=1"},
		"a name over lines":      {"Content-Type: x/y;\n name=a.txt\n\nabc", "a.txt=abc"},
		"a name in pieces":       {"Content-Type: x/y; name*0=a.; name*1=txt\n\nabc", "a.txt=abc"},
		"a name with a charset":  {"Content-Type: x/y; name*=utf-8'en'a%20b\n\nabc", "a b=abc"},
		"an empty name":          {"Content-Type: x/y; name=\"\"\n\nabc", ""},
		"an empty file":          {"Content-Type: x/y; name=a\n\n", "a="},
		"the disposition's name": {"Content-Type: x/y; name=a\nContent-Disposition: attachment; filename=b\n\n1", "b=1"},
		"a parameter's end":      {"Content-Type: x/y; charset=\"a;name=no\"; name=yes\n\n1", "yes=1"},
	} {
		complete := name != "cut"
		var got []string
		for _, f := range Read([]byte(strings.ReplaceAll(x.text, "\n", "\r\n")), complete).Files {
			s := f.Name + "=" + string(f.Data)
			if !f.Complete {
				s += "..."
			}
			got = append(got, s)
		}
		if strings.Join(got, " ") != x.want {
			t.Errorf("%s: files %q, want %q", name, got, x.want)
		}
	}
}

func TestAddressesAndAnomaliesOfMails(t *testing.T) {
	for text, want := range map[string]string{
		"\n\nsee http://A.example/x and https://b.example.":  "[a.example/x b.example.] []",
		"\n\n<a href=\"ftp://c.example/f\">":                 "[c.example/f] []",
		"\n\nhttp:// nothing":                                "[] []",
		"Content-Type: image/png\n\nhttp://a.example":        "[] []",
		"Content-Transfer-Encoding: base64\n\n!!!!":          "[] [mime_invalid_base64]",
		"Content-Transfer-Encoding: quoted-printable\n\n=QQ": "[] [mime_invalid_qp]",
		"no colon\n\nx":                       "[] [mime_malformed_msg]",
		strings.Repeat("n", 300) + ": x\n\nx": "[] [mime_long_header_name]",
		"\n\n" + strings.Repeat("x", 1200):    "[] [mime_long_line]",
		"Content-Transfer-Encoding: base64\n\n" + "aHR0cDovL2QuZXhhbXBsZS94": "[d.example/x] []",
	} {
		m := Read([]byte(text), true)
		if got := fmt.Sprint(m.URLs, " ", m.Odd); got != want {
			t.Errorf("%.60q: %s, want %s", text, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: message/rfc822\r\n\r\nContent-Type: a/b; name*0=c\r\n\r\nd\r\n--b--"), true)
	f.Fuzz(func(t *testing.T, raw []byte, complete bool) {
		if m := Read(raw, complete); len(m.Files) > maxParts {
			t.Errorf("%d files", len(m.Files))
		}
	})
}
