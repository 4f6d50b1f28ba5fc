package files

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
)

// sniffed is how many bytes of a file say what it is.
const sniffed = 64 << 10

// smallAnswer is the size up to which a text may be the explanation of a server instead of a list.
const smallAnswer = 2 << 10

var (
	// markup matches the beginning of a line of a page.
	markup = regexp.MustCompile(`(?i)^<(!doctype|!--|\?xml|\?php|/?(html|head|body|title|meta|link|script|style|div|span|p|a|h[1-6]|table|tr|td|form|input|br|b|hr|pre|svg|rss|feed|error|response|html:html)\b)`)
	// explanation matches how servers begin to say that there is no file.
	explanation = regexp.MustCompile(`(?i)^\W*((http[/ ][0-9.]* ?)?[45][0-9]{2}\b|error\b|errno\b|(file |page |object |repository )?not found|forbidden|unauthori[sz]ed|access (is )?denied|permission denied|too many requests|rate limit|(service|temporarily|site) ?(is )?(temporarily )?unavailable|bad (gateway|request)|gateway time-?out|internal server|moved\b|found\. redirecting|gone\b|the (page|file|resource|requested|site|server|list)\b|this (page|site|list|file|repository|url|service|account)\b|(no|invalid|missing|unknown) [a-z]+|(please|sorry|oops|unable|cannot|couldn't|could not|failed)\b|(under|down for) (maintenance|construction)|hello|welcome|it works|blocked\b|checking your browser|just a moment|enable javascript|backend|upstream|quota|license|subscription|expired|denied\b|timeout|null$|undefined$|ok$|true$|false$|none$)`)
	failure     = regexp.MustCompile(`"(error|errors|message|detail|documentation_url|status|code|fault|exception)"\s*:`)
)

// A NoListError reports a file that cannot be a list or rules, whatever it was called.
type NoListError struct{ What string }

func (e *NoListError) Error() string {
	return "it is " + e.What + ", not a list: is there a login or error page in between?"
}

// CheckContent returns a [NoListError] if a file is something else than a list, an archive of lists
// or rules. It looks at the beginning, unpacked, and not at any label.
func CheckContent(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := Unpack(f)
	if err != nil {
		return fmt.Errorf("unpacking it: %w", err)
	}
	head, err := io.ReadAll(io.LimitReader(r, sniffed))
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("unpacking it: %w", err)
	}
	if what := notAList(head); what != "" {
		return &NoListError{what}
	}
	return nil
}

// notAList says what the beginning of a file is, if that is neither a list nor an archive, else "".
func notAList(head []byte) string {
	if IsTar(head) || bytes.HasPrefix(head, []byte("PK\x03\x04")) {
		return ""
	}
	if enc := CharsetOf("", "", bufio.NewReader(bytes.NewReader(head))); enc != nil {
		if text, err := enc.NewDecoder().Bytes(head); err == nil {
			head = text
		}
	}
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	text := bytes.TrimSpace(head)
	switch kind, _, _ := strings.Cut(http.DetectContentType(text), ";"); {
	case kind == "text/html", kind == "text/xml", markup.Match(text):
		return "a web page"
	case kind == "application/pdf", kind == "application/postscript", bytes.HasPrefix(text, []byte("{\\rtf")):
		return "a document"
	case strings.HasPrefix(kind, "image/"), strings.HasPrefix(kind, "audio/"), strings.HasPrefix(kind, "video/"), strings.HasPrefix(kind, "font/"):
		return "a file of type " + kind
	}
	if isBinary(head) {
		return "binary data"
	}
	if bytes.HasPrefix(text, []byte("version https://git-lfs")) || bytes.HasPrefix(text, []byte("oid sha256:")) {
		return "the pointer that Git keeps in place of a large file"
	}
	if what := isAnswer(text); what != "" {
		return what
	}
	lines, tags := 0, 0
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines++
			if markup.Match(line) {
				tags++
			}
		}
	}
	if tags >= 3 && tags*10 > lines {
		return "a web page"
	}
	return ""
}

// isBinary reports whether more than a tenth of the bytes are no text in any charset.
func isBinary(head []byte) bool {
	n := 0
	for _, c := range head {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f' || c == 0x7f {
			n++
		}
	}
	return n > 4 && n*10 > len(head)
}

// isAnswer recognises what a server says in place of a file: a sentence, an object about a failure,
// or the target of a link.
func isAnswer(text []byte) string {
	if len(text) == 0 || len(text) > smallAnswer {
		return ""
	}
	first, rest, several := bytes.Cut(text, []byte("\n"))
	switch {
	case text[0] == '{' && failure.Match(text):
		return "a message of its server"
	case explanation.Match(text) && !bytes.ContainsAny(first, "/^$|*\\") && bytes.IndexByte(bytes.TrimRight(first, ". \r"), '.') < 0:
		return "a message of its server"
	case !several && len(rest) == 0 && (bytes.HasPrefix(text, []byte("../")) || bytes.HasPrefix(text, []byte("./")) || bytes.HasPrefix(text, []byte("/annex/"))):
		return "the name of another file, as in a link"
	}
	return ""
}
