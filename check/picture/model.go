//go:build !small

package picture

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"shuultuur/lib/neural"
	"shuultuur/lib/picture"
)

// A Description describes the input and output of a model. It is in FILE.yaml beside the
// model.
type Description struct {
	Name    string `yaml:"name"`
	Licence string `yaml:"licence"`

	Size   string    `yaml:"size"`   // of the input: "224x224", width first
	Resize string    `yaml:"resize"` // size to scale to; the centre, of the given Size, is then cut out
	Layout string    `yaml:"layout"` // nchw (default) or nhwc
	Order  string    `yaml:"order"`  // of colours: rgb (default) or bgr
	Fit    string    `yaml:"fit"`    // stretch (default), fill or frame
	Mean   []float32 `yaml:"mean"`   // subtracted from each colour, in the model's order
	Std    []float32 `yaml:"std"`    // divides each colour after that

	Output     int      `yaml:"output"`     // index of the output to use, from 0
	Kind       string   `yaml:"kind"`       // classes (default), or boxes as in YOLO: four coordinates, then a score for each label
	Activation string   `yaml:"activation"` // of the output: none (default), softmax or sigmoid
	Labels     []string `yaml:"labels"`
	// Thresholds has the labels that make a picture explicit, with their lowest scores, 0 to
	// 1.
	Thresholds map[string]float32 `yaml:"thresholds"`
}

// A Model is a neural network with its description.
type Model struct {
	Description
	Net           *neural.Net
	w, h          int
	before        [2]int // size to scale to
	idle          chan *neural.Worker
	explicit      []float32 // threshold of each label; above 1 for none
	files         []string
	digest        []byte // of both files
	mean, perUnit [3]float32
}

// maxDescription limits the bytes of a description.
const maxDescription = 64 << 10

// OpenModel reads a model and its description, FILE.yaml.
func OpenModel(file string) (*Model, error) {
	beside := file + ".yaml"
	text, err := os.ReadFile(beside)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: it says the size of the model's input, its labels and thresholds", beside)
	}
	if err != nil {
		return nil, err
	}
	if len(text) > maxDescription {
		return nil, fmt.Errorf("%s is larger than %d KiB", beside, maxDescription>>10)
	}
	m := &Model{files: []string{file, beside}, idle: make(chan *neural.Worker, 1)}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&m.Description); err != nil {
		return nil, fmt.Errorf("%s: %w", beside, err)
	}
	if err := m.complete(); err != nil {
		return nil, fmt.Errorf("%s: %w", beside, err)
	}
	g, sum, err := ReadGraph(file)
	if err != nil {
		return nil, err
	}
	both := sha256.Sum256(append(sum[:], text...))
	m.digest = both[:]
	if missing := g.Missing(); len(missing) > 0 {
		return nil, fmt.Errorf("%s: unsupported operators: %s", file, strings.Join(missing, ", "))
	}
	shape := []int{1, 3, m.h, m.w}
	if m.Layout == "nhwc" {
		shape = []int{1, m.h, m.w, 3}
	}
	if m.Net, err = g.Compile(shape); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := m.outputs(); err != nil {
		return nil, fmt.Errorf("%s: %w", beside, err)
	}
	return m, nil
}

// ReadGraph reads the file of a model. It also returns its SHA-256.
func ReadGraph(file string) (g *neural.Graph, sum [32]byte, err error) {
	s, err := os.Stat(file)
	if err != nil {
		return nil, sum, err
	}
	if s.Size() > neural.MaxFile {
		return nil, sum, fmt.Errorf("%s: the model has %d MB; at most %d are possible", file, s.Size()>>20, neural.MaxFile>>20)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, sum, err
	}
	if g, err = neural.Read(b); err != nil {
		return nil, sum, fmt.Errorf("%s: %w", file, err)
	}
	return g, sha256.Sum256(b), nil
}

func oneOf(key, value string, all ...string) error {
	if value == "" || slices.Contains(all, value) {
		return nil
	}
	return fmt.Errorf("%s: %q is not one of %s", key, value, strings.Join(all, ", "))
}

// complete validates a description and sets defaults.
func (m *Model) complete() error {
	if n, err := fmt.Sscanf(m.Size, "%dx%d", &m.w, &m.h); n != 2 || err != nil || m.w < 8 || m.h < 8 || m.w > 2048 || m.h > 2048 {
		return fmt.Errorf("size: %q is not a size such as 224x224, from 8x8 to 2048x2048", m.Size)
	}
	m.before = [2]int{m.w, m.h}
	if m.Resize != "" {
		if n, err := fmt.Sscanf(m.Resize, "%dx%d", &m.before[0], &m.before[1]); n != 2 || err != nil ||
			m.before[0] < m.w || m.before[1] < m.h || m.before[0] > 4096 || m.before[1] > 4096 {
			return fmt.Errorf("resize: %q is not a size such as 256x256 of at least %s", m.Resize, m.Size)
		}
	}
	if err := errors.Join(oneOf("layout", m.Layout, "nchw", "nhwc"), oneOf("order", m.Order, "rgb", "bgr"), oneOf("fit", m.Fit, "stretch", "fill", "frame"),
		oneOf("kind", m.Kind, "classes", "boxes"), oneOf("activation", m.Activation, "none", "softmax", "sigmoid")); err != nil {
		return err
	}
	m.perUnit = [3]float32{1, 1, 1}
	for key, v := range map[string][]float32{"mean": m.Mean, "std": m.Std} {
		if len(v) != 0 && len(v) != 3 {
			return fmt.Errorf("%s: %d numbers; write one for each of the three colours", key, len(v))
		}
	}
	copy(m.mean[:], m.Mean)
	for i, v := range m.Std {
		if !(v > 0) {
			return fmt.Errorf("std: %v is not greater than 0", v)
		}
		m.perUnit[i] = 1 / v
	}
	if len(m.Labels) == 0 {
		return errors.New("labels: name the meaning of each number in the output")
	}
	for range m.Labels {
		m.explicit = append(m.explicit, 2)
	}
	if len(m.Thresholds) == 0 {
		return errors.New("thresholds: give the lowest score (0 to 1) that counts, for at least one label")
	}
	for _, label := range slices.Sorted(maps.Keys(m.Thresholds)) {
		i, least := slices.Index(m.Labels, label), m.Thresholds[label]
		if i < 0 {
			return fmt.Errorf("thresholds: %q is not one of the labels", label)
		}
		if !(least >= 0 && least <= 1) {
			return fmt.Errorf("thresholds: %v of %s is not from 0 to 1", least, label)
		}
		m.explicit[i] = least
	}
	return nil
}

// outputs compares the description with the outputs of the network.
func (m *Model) outputs() error {
	if m.Output < 0 || m.Output >= len(m.Net.Outputs) {
		return fmt.Errorf("output: there is no output %d; the model has %d", m.Output, len(m.Net.Outputs))
	}
	shape := m.Net.Outputs[m.Output]
	if m.Kind == "boxes" {
		if len(shape) != 3 || shape[1] != 4+len(m.Labels) {
			return fmt.Errorf("labels: the output of the model is %v, which for boxes would be [1 %d N] with %d labels", shape, 4+len(m.Labels), len(m.Labels))
		}
		return nil
	}
	size := 1
	for _, d := range shape {
		size *= d
	}
	if size != len(m.Labels) {
		return fmt.Errorf("labels: the output of the model has %d numbers (%v), but there are %d labels", size, shape, len(m.Labels))
	}
	return nil
}

// A Label is the score of one label, 0 to 1.
type Label struct {
	Name  string
	Score float32
}

// Judge runs the model on a picture, on its own worker. It returns the highest score of the
// labels that make a picture explicit, 0 to 100, and the scores of all labels, highest first.
func (m *Model) Judge(ctx context.Context, b []byte) (score int, all []Label, err error) {
	img, err := m.decode(b)
	if err != nil {
		return 0, nil, err
	}
	return m.judge(ctx, m.fitted(img))
}

// decode decodes a picture in a size sufficient for the model and for the hash of its input.
func (m *Model) decode(b []byte) (*picture.RGB, error) {
	return picture.Decode(b, max(m.before[0], m.before[1], leastHashed))
}

// judge runs the model on a picture of the right size.
func (m *Model) judge(ctx context.Context, img *picture.RGB) (score int, all []Label, err error) {
	w := m.worker()
	defer m.give(w)
	m.fill(w.Input(), img)
	out, err := w.Run(ctx)
	if err != nil {
		return 0, nil, err
	}
	scores := m.scores(out[m.Output])
	for i, s := range scores {
		all = append(all, Label{m.Labels[i], s})
		if s >= m.explicit[i] {
			score = max(score, int(math.Round(float64(100*s))))
		}
	}
	slices.SortStableFunc(all, func(a, b Label) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return 0
	})
	return min(score, 100), all, nil
}

// worker returns an unused worker, or a new one. There are as many as pictures are judged at a
// time.
func (m *Model) worker() *neural.Worker {
	select {
	case w := <-m.idle:
		return w
	default:
		return m.Net.Worker()
	}
}

func (m *Model) give(w *neural.Worker) {
	select {
	case m.idle <- w:
	default:
	}
}

// fitted returns a picture in the size of the model's input.
func (m *Model) fitted(img *picture.RGB) *picture.RGB {
	switch m.Fit {
	case "fill":
		img = img.Fill(m.before[0], m.before[1])
	case "frame":
		img = img.Frame(m.before[0], m.before[1])
	default:
		img = img.Scale(m.before[0], m.before[1])
	}
	if img.W != m.w || img.H != m.h {
		img = img.Cut((img.W-m.w)/2, (img.H-m.h)/2, m.w, m.h)
	}
	return img
}

// fill writes a picture to an input.
func (m *Model) fill(in []float32, img *picture.RGB) {
	n, pixel, plane := m.w*m.h, 1, m.w*m.h
	if m.Layout == "nhwc" {
		pixel, plane = 3, 1
	}
	for c := range 3 {
		from := c
		if m.Order == "bgr" {
			from = 2 - c
		}
		mean, per := m.mean[c], m.perUnit[c]
		for i := range n {
			in[i*pixel+c*plane] = (float32(img.Pix[3*i+from]) - mean) * per
		}
	}
}

// scores reads an output: one number per label, or one per label for each box.
func (m *Model) scores(out []float32) []float32 {
	s := make([]float32, len(m.Labels))
	if m.Kind == "boxes" {
		n := m.Net.Outputs[m.Output][2]
		for i := range s {
			s[i] = slices.Max(out[(4+i)*n : (5+i)*n])
		}
	} else {
		copy(s, out)
	}
	switch m.Activation {
	case "sigmoid":
		for i, v := range s {
			s[i] = float32(1 / (1 + math.Exp(-float64(v))))
		}
	case "softmax":
		top, sum := slices.Max(s), 0.0
		for i, v := range s {
			s[i] = float32(math.Exp(float64(v - top)))
			sum += float64(s[i])
		}
		for i := range s {
			s[i] /= float32(sum)
		}
	}
	for i, v := range s {
		if v != v {
			s[i] = 0 // not a number: unknown
		}
		s[i] = max(0, min(1, s[i]))
	}
	return s
}

// Title returns the name of the model.
func (m *Model) Title() string {
	if m.Name != "" {
		return m.Name
	}
	return "model"
}
