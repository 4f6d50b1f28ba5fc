package icap

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestEncapsulated(t *testing.T) {
	for value, want := range map[string]Encapsulated{
		"null-body=0":                             {Present: true, Req: -1, Res: -1},
		"req-hdr=0, null-body=170":                {Present: true, Req: 170, Res: -1},
		"req-hdr=0, res-hdr=137, res-body=296":    {Present: true, Req: 137, Res: 159, Body: true, ForAnswer: true},
		"REQ-HDR=0,req-body=1":                    {Present: true, Req: 1, Res: -1, Body: true},
		"":                                        {},
		"req-hdr=0":                               {},
		"req-hdr=1, null-body=2":                  {},
		"req-hdr=0, res-hdr=0, null-body=3":       {},
		"res-hdr=0, req-hdr=4, null-body=9":       {},
		"req-hdr=0, null-body=-1":                 {},
		"req-hdr=0, null-body=99999999":           {},
		"req-hdr=0, null-body=5, res-hdr=9":       {},
		"req-hdr=0, req-hdr=5, null-body=9":       {},
		"req-hdr=0, null-body=99999999999999999x": {},
	} {
		var e Encapsulated
		err := e.Parse(value)
		if (err == nil) != want.Present || err == nil && e != want {
			t.Errorf("parsing %q gave %+v, %v", value, e, err)
		}
	}
}

func TestChunks(t *testing.T) {
	for text, want := range map[string]struct {
		n   int64
		ext string
		bad bool
	}{
		"1f\r\n":                            {n: 31},
		"0; ieof\r\n":                       {ext: "ieof"},
		"0;use-original-body=10\r\n":        {ext: "use-original-body=10"},
		"-1\r\n":                            {bad: true},
		"1\n":                               {bad: true},
		"":                                  {bad: true},
		"ffffffffffffffffff\r\n":            {bad: true},
		strings.Repeat("0", maxChunkLine+9): {bad: true},
	} {
		n, ext, err := ReadChunk(bufio.NewReaderSize(strings.NewReader(text), MaxLine))
		if (err != nil) != want.bad || err == nil && (n != want.n || string(ext) != want.ext) {
			t.Errorf("ReadChunk of %.40q returned %d, %q, %v", text, n, ext, err)
		}
	}
}

// FuzzFraming reads arbitrary bytes as chunks and as the Encapsulated field.
func FuzzFraming(f *testing.F) {
	f.Add("req-hdr=0, null-body=170", "5;x\r\nhello\r\n0\r\n\r\n")
	f.Add("res-hdr=0, res-body=1", "0; use-original-body=7\r\nA: b\r\n\r\n")
	f.Fuzz(func(t *testing.T, value, chunks string) {
		var e Encapsulated
		if err := e.Parse(value); err == nil && (e.Req > MaxHeads || e.Res > MaxHeads || e.Req == 0 || e.Res == 0) {
			t.Errorf("parsing %q gave %+v, beyond the limits", value, e)
		}
		r := bufio.NewReaderSize(strings.NewReader(chunks), MaxLine)
		for {
			n, _, err := ReadChunk(r)
			if err == nil && n < 0 {
				t.Fatalf("ReadChunk of %q returned a size of %d", chunks, n)
			}
			if err == nil && n == 0 {
				err = SkipTrailer(r)
				if err == nil {
					return
				}
			}
			if err == nil {
				_, err = io.CopyN(io.Discard, r, n)
			}
			if err == nil {
				err = EndChunk(r)
			}
			if err != nil {
				var fault *Fault
				if errors.As(err, &fault) && fault.Status < 400 {
					t.Errorf("the fault %v has the status %d", err, fault.Status)
				}
				return
			}
		}
	})
}
