// Package picture looks at the pictures of responses: whether they are on a list
// of hashes, and how much skin they show.
//
// A picture passes a gate first (type and size by its own bytes; icons are never
// decoded), is decoded at an eighth of its size, and judged. A neural network is
// asked where cheap signals suggest it: much skin, no colours, or a page whose
// other pictures were explicit. Verdicts are remembered by the SHA-256 of the
// bytes, those of the network by the PDQ hash, too, so that no picture is judged
// twice. A bounded number is judged at a time; one that finds no room, cannot be
// decoded, or is not judged in time, gets the finding picture-unread.
package picture

import "shuultuur/setting"

// Config says what is looked for in pictures.
type Config struct {
	Skin   bool                `yaml:"skin"`   // report how much skin a picture shows
	Hashes map[string]HashList `yaml:"hashes"` // lists of hashes by name
	Model  setting.File        `yaml:"model"`  // a neural network in the format of ONNX, with FILE.yaml beside it
	// Suspect is the score of skin from which on the model is asked; 0 asks it
	// about every picture.
	Suspect *int `yaml:"suspect"`
	// Workers bounds the pictures that are decoded at a time; 0 means one for
	// each processor.
	Workers setting.Count `yaml:"workers"`
	// Full waits for every judgement and asks the model about every picture, for
	// the explanation of one.
	Full bool `yaml:"-"`
}

// Findings of this check.
const (
	Skin     = "picture/skin"
	Explicit = "picture/explicit"
	Page     = "picture/page"
	Listed   = "picture/listed:"
	Unread   = "picture-unread"
)

// A HashList is a file of hashes: text with one on each line ("#" begins a
// comment), or CSV with a heading, such as exports of ThreatExchange.
type HashList struct {
	File setting.File `yaml:"file"`
	// Type is the type of the hashes in a text: pdq, dhash, sha256 or md5. Left
	// out, 64 digits are PDQ, 32 MD5 and 16 dHash.
	Type string `yaml:"type"`
	// Distance is up to how many bits a dHash may differ.
	Distance setting.Count `yaml:"distance"`
	// Locked keeps the list's hashes out of evidence: only its name is shown. The
	// gateway encrypts the file, which then stays locked whatever stands here.
	Locked bool `yaml:"locked"`
}
