package language

import "math"

// Count adds the trigrams of a text in a language to counts, for training.
func Count(tag Tag, text string, weight float64, counts map[Tag][]float64) {
	for _, l := range Languages {
		if l.Tag != tag {
			continue
		}
		c := counts[tag]
		if c == nil {
			c = make([]float64, buckets)
			counts[tag] = c
		}
		for len(text) > 0 {
			part := text[:min(len(text), sample)]
			text = text[len(part):]
			var t trigrams
			t.read([]byte(part), l.Script)
			for _, b := range t.buckets[:t.n] {
				c[b] += weight
			}
		}
	}
}

// Weigh makes a model from counts. For each script with several languages, it has for each
// bucket and language eight times the logarithm of the bucket's likelihood in this language
// relative to the mean of the others.
func Weigh(counts map[Tag][]float64) (data []byte) {
	for s := range scripts {
		var rows [][]float64
		for _, l := range Languages {
			if l.Script == s {
				rows = append(rows, logs(counts[l.Tag]))
			}
		}
		if len(rows) < 2 {
			continue
		}
		for b := range buckets {
			mean := 0.0
			for _, r := range rows {
				mean += r[b]
			}
			mean /= float64(len(rows))
			for _, r := range rows {
				data = append(data, byte(int8(math.Round(max(-127, min(127, 8*(r[b]-mean)))))))
			}
		}
	}
	return data
}

// logs returns the logarithms of smoothed frequencies.
func logs(counts []float64) []float64 {
	out := make([]float64, buckets)
	sum := 0.0
	for _, c := range counts {
		sum += c
	}
	const smooth = 0.02 / buckets // relative to the total
	for i := range out {
		p := 0.0
		if sum > 0 {
			p = counts[i] / sum
		}
		out[i] = math.Log(p + smooth)
	}
	return out
}
