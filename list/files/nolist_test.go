package files

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// noLists are what servers give in place of a list.
var noLists = map[string]string{
	"page":              "<!DOCTYPE html>\n<html><head><title>Login</title></head>\n<body><p>Please log in</p></body></html>\n",
	"page without type": "\n\n  <html>\n<body>\nads.example\n</body></html>",
	"page with comment": "<!-- saved -->\n<html></html>",
	"page after text":   "Loading\n" + strings.Repeat("<div>\n<p>\nx\n", 20),
	"script warning":    "<br />\n<b>Warning</b>: mysql_connect() in /var/www/x.php on line 3<br />",
	"xml":               `<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>`,
	"feed":              "<rss version=\"2.0\"><channel></channel></rss>",
	"not found":         "404: Not Found",
	"not found, in one": "Not Found\n",
	"forbidden":         "Forbidden",
	"error":             "error code: 1020",
	"rate":              "Rate limit exceeded; try again later.\n",
	"maintenance":       "This site is down for maintenance.\n",
	"object":            "{\n  \"message\": \"Not Found\",\n  \"documentation_url\": \"https://docs.example/\",\n  \"host\": \"a.example\"\n}",
	"large file":        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n",
	"link":              "../hosts/list.txt",
	"document":          "%PDF-1.7\n1 0 obj\n<< /Type /Catalog >>\n",
	"picture":           "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
	"binary":            "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00",
	"brotli":            "\x0b\x02\x80\x01\x02\x03\x04\x05\x06\x07\x00\x01\x02\x03\x10\x11\x12",
}

var lists = []string{
	"ads.example\n", "0.0.0.0 ads.example\n", "[Adblock Plus 2.0]\n! Title: x\n||a.example^\n", "! <a href=\"x\">\n||a.example^\n", "# <html>\nads.example\n",
	"[\"a.example\"]", `{"entry": "a.example", "category": "x"}`, "domain,category\na.example,x\n", "$TTL 60\n@ SOA a. b. 1 1 1 1 1\na.example CNAME .\n",
	"(^|[-./])casino\n", "error.example\n", "forbidden.example\n404.example\n", "404page.example", "/banner/*\n", "../ads/*\n-ads.js\n", "alert http any any -> any any (sid:1;)\n",
	"not found.example\n" + strings.Repeat("a.example\n", 300), "ads.example\x00\n" + strings.Repeat("a.example\n", 9), "", "\n\n", "# nothing yet\n",
	strings.Repeat("a.example\n", 50) + "<p>\n<p>\n<p>\n", "the-page.example\n", "timeout.example\n",
}

func coded(t *testing.T, text, coding string) []byte {
	switch coding {
	case "gzip":
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(text))
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	case "BOM":
		return []byte("\ufeff" + text)
	case "UTF-16":
		b := []byte{0xff, 0xfe}
		for _, c := range utf16.Encode([]rune(text)) {
			b = append(b, byte(c), byte(c>>8))
		}
		return b
	case "blanks":
		return []byte(" \r\n\t\n" + text)
	}
	return []byte(text)
}

func TestWhatIsNoListIsRecognised(t *testing.T) {
	check := func(text, coding string) error {
		file := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(file, coded(t, text, coding), 0o600); err != nil {
			t.Fatal(err)
		}
		return CheckContent(file)
	}
	for _, coding := range []string{"", "gzip", "BOM", "UTF-16", "blanks"} {
		for what, text := range noLists {
			if coding != "" && coding != "gzip" && !utf8.ValidString(text) {
				continue // these codings are of texts
			}
			no := (*NoListError)(nil)
			if err := check(text, coding); !errors.As(err, &no) {
				t.Errorf("%s, %s: it is taken: %v", what, coding, err)
			}
		}
		for _, text := range lists {
			if err := check(text, coding); err != nil {
				t.Errorf("the list %.40q, %s: %v", text, coding, err)
			}
		}
	}
}
