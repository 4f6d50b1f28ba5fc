// Package picture is the check of pictures in responses: whether a list of hashes contains
// them, and how much skin they show.
//
// A picture first passes a gate, which goes by type and size in its bytes; icons are never
// decoded. It is then decoded at an eighth of its size and judged. A neural network judges it
// too if cheap signals suggest that: much skin, no colours, or explicit pictures on the same
// page. Verdicts are remembered by the SHA-256 of the bytes, those of the network also by the
// PDQ hash, so that no picture is judged twice. The number of pictures judged at a time is
// limited. One for which there is no room, that cannot be decoded or that is not judged in
// time gets the finding picture-unread.
package picture

import "shuultuur/lib/setting"

// Config are the settings of the check.
type Config struct {
	Skin   bool                `yaml:"skin"`   // report how much skin a picture shows
	Hashes map[string]HashList `yaml:"hashes"` // lists of hashes by name
	Model  setting.File        `yaml:"model"`  // a neural network in the format of ONNX, with FILE.yaml beside it
	// Suspect is the score of skin from which on the model judges a picture; 0 for all
	// pictures.
	Suspect *int `yaml:"suspect"`
	// Workers limits the pictures that are decoded at a time; 0 means one per processor.
	Workers setting.Count `yaml:"workers"`
	// Full waits for every verdict and has the model judge every picture, to explain one.
	Full bool `yaml:"-"`
}

// Categories of findings.
const (
	Skin     = "picture/skin"
	Explicit = "picture/explicit"
	Page     = "picture/page"
	Listed   = "picture/listed:"
	Unread   = "picture-unread"
)

// A HashList is a file of hashes: text with one on each line ("#" begins a comment), or CSV
// with column names, such as exports of ThreatExchange.
type HashList struct {
	File setting.File `yaml:"file"`
	// Type is the type of the hashes in a text: pdq, dhash, sha256 or md5. By default 64
	// digits are a PDQ hash, 32 MD5 and 16 a dHash.
	Type string `yaml:"type"`
	// Distance is the number of bits in which a matching dHash may differ.
	Distance setting.Count `yaml:"distance"`
	// Locked keeps the hashes of the list out of evidence, which then has only its name. The
	// gateway encrypts the file, which from then on is locked whatever this setting says.
	Locked bool `yaml:"locked"`
}

// ReportAll makes the check report everything it found, to explain one page.
func (c *Config) ReportAll() { c.Full = true }
