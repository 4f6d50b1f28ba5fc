package leak

import (
	"math/rand/v2"
	"slices"
	"testing"

	"shuultuur/content"
)

func TestPatterns(t *testing.T) {
	p, err := NewPatterns([]string{"card", "iban", `/\b\d{3}-\d{2}-\d{4}\b/`})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in   string
		want []int
	}{
		{"pay with 4111 1111 1111 1111 please", []int{1, 0, 0}},
		{"4111-1111-1111-1111, 5500000000000004; 3782 822463 10005", []int{3, 0, 0}},
		{"4111111111111112 is wrong, 1234567890123452 no issuer", []int{0, 0, 0}},
		{"x4111111111111111 41111111111111111111111", []int{0, 0, 0}},
		{"account DE89 3704 0044 0532 0130 00 or GB82WEST12345698765432.", []int{0, 2, 0}},
		{"DE88 3704 0044 0532 0130 00, NL91ABNA0417164300", []int{0, 1, 0}},
		{"my number is 123-45-6789", []int{0, 0, 1}},
		{"card=4111%201111%201111%201111", []int{1, 0, 0}},
		{"2024 10 15 4111111111111111 2025", []int{1, 0, 0}},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		for range 50 {
			var b content.Body
			b.Reset(content.Describe("application/x-www-form-urlencoded", ""), content.Limits{})
			s := b.Follow(p).(*Scan)
			for rest := []byte(c.in); len(rest) > 0; {
				n := 1 + r.IntN(len(rest))
				b.Append(rest[:n])
				if rest = rest[n:]; len(rest) == 0 {
					b.Finish()
				}
				for {
					block, err := b.Next()
					if len(block) == 0 || err != nil {
						break
					}
					_, _ = s.Write(block)
				}
				b.Forget()
			}
			_ = b.Read(t.Context())
			if !slices.Equal(s.N, c.want) {
				t.Errorf("%q has the matches %v, want %v", c.in, s.N, c.want)
				break
			}
			b.Release()
		}
	}
	for _, bad := range []string{"cards", "/(/", "/x*/", "//"} {
		if _, err := NewPatterns([]string{bad}); err == nil {
			t.Errorf("NewPatterns accepts %q", bad)
		}
	}
	d := NewDigests()
	_, _ = d.Write([]byte("ab"))
	_, _ = d.Write([]byte("c"))
	for _, sum := range []string{"900150983cd24fb0d6963f7d28e17f72", "A9993E364706816ABA3E25717850C26C9CD0D89D", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"} {
		if !d.Is(sum) || d.Is(sum[1:]+"0") {
			t.Errorf("Is(%s) is false, or true for another sum", sum)
		}
	}
}
