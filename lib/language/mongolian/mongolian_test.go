package mongolian

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"shuultuur/lib/language/inflect"
	"shuultuur/test/data"
)

func stemmer(t testing.TB) *inflect.Stemmer {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStem(t *testing.T) {
	s := stemmer(t)
	for _, c := range []struct{ word, want string }{
		{"шаврын", "шавар"},
		{"дохионоос", "дохио"},
		{"сүмээс", "сүм"},
		{"зүхлээ", "зүхэл"},
		{"жүжигчнээс", "жүжигчин"},
		{"эмчийг", "эмч"},
		{"номуудаас", "ном"},
		{"ном", "ном"},
		{"явсан", "яв"},
		{"сонссонгүй", "сонс"},
		{"уншдаг", "унш"},
		{"тоглоод", "тогло"},
		{"", ""},
	} {
		if got := string(s.Stem(nil, []byte(c.word))); got != c.want {
			t.Errorf("Stem(%q) = %q, want %q", c.word, got, c.want)
		}
	}
}

func TestAccuracy(t *testing.T) {
	s := stemmer(t)
	f, err := os.Open(data.Path(t, "stems", "mn-nouns.tsv"))
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	var rows [][3]string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		w, stem, _ := strings.Cut(sc.Text(), "\t")
		rows = append(rows, [3]string{w, stem, string(s.Stem(nil, []byte(w)))})
	}
	got := inflect.Judge(rows)
	t.Log(got)
	if got.Exact < 0.88 || got.F1 < 0.92 {
		t.Errorf("%s; want at least 88 %% exact and F1 0.92", got)
	}
}

// forms are verbs that are not in the training data, each with forms that occur in texts.
const forms = `
бүтээ: бүтээсэн бүтээв бүтээж бүтээх бүтээдэг бүтээнэ бүтээгээд бүтээхэд
нийтэл: нийтэлсэн нийтлэх нийтлэв нийтэлдэг нийтлээд нийтэлжээ нийтлэхийг
илгээ: илгээсэн илгээх илгээв илгээж илгээнэ илгээхгүй илгээсний
зарла: зарласан зарлах зарлав зарлаж зарлана зарласныг зарлахад
мөрд: мөрдөх мөрдсөн мөрдөж мөрддөг мөрдөнө мөрдөхгүй мөрдөөд
зорь: зорьсон зорих зорьж зорино зорив зорьдог зориод
ажигла: ажигласан ажиглах ажиглаж ажиглав ажиглаад ажигладаггүй ажиглалаа
мэдэр: мэдэрсэн мэдрэх мэдэрч мэдэрлээ мэдэрдэг мэдрээд мэдэрсэнгүй
уулз: уулзсан уулзах уулзаж уулзав уулзлаа уулзъя уулзахаар уулзаарай
мөрийц: мөрийцсөн мөрийцөх мөрийцөж мөрийцдөг мөрийцөхгүй мөрийцсөнд
сүйтгэ: сүйтгэсэн сүйтгэх сүйтгэв сүйтгэж сүйтгэдэг сүйтгэхийн
дээрэмд: дээрэмдсэн дээрэмдэх дээрэмдэж дээрэмдэв дээрэмдээд дээрэмддэггүй
согт: согтсон согтох согтож согтоод согтдог согтохгүй
`

func TestUnseenVerbs(t *testing.T) {
	s := stemmer(t)
	var rows [][3]string
	for line := range strings.Lines(forms) {
		stem, words, _ := strings.Cut(line, ":")
		if strings.Contains(" "+Verbs+" ", " "+stem+" ") {
			t.Errorf("%q is among the verbs of the training data", stem)
		}
		for _, w := range strings.Fields(words) {
			rows = append(rows, [3]string{w, stem, string(s.Stem(nil, []byte(w)))})
			if got := rows[len(rows)-1]; got[1] != got[2] {
				t.Log(got)
			}
		}
	}
	got := inflect.Judge(rows)
	t.Log(got)
	if got.F1 < 0.7 {
		t.Errorf("%s; want at least F1 0.7", got)
	}
}

func TestStemmingAllocatesNothing(t *testing.T) {
	s := stemmer(t)
	dst := make([]byte, 0, 64)
	word := []byte("жүжигчнээс")
	if n := testing.AllocsPerRun(100, func() { dst = s.Stem(dst[:0], word) }); n != 0 {
		t.Errorf("Stem allocates %v times, want 0", n)
	}
}

func FuzzStem(f *testing.F) {
	s := stemmer(f)
	for _, w := range []string{"хониноос", "зүхлээ", "\xd0", "ааааааааа", strings.Repeat("ийн", 30)} {
		f.Add([]byte(w))
	}
	f.Fuzz(func(t *testing.T, word []byte) {
		if got := s.Stem(nil, word); len(got) == 0 && len(word) > 0 {
			t.Errorf("the stem of %q is empty", word)
		}
	})
}
