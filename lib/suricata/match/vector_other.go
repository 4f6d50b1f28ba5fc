//go:build !amd64

package match

// vectors reports whether there are vector instructions.
const vectors = false

func sieveAVX2(*byte, int, *uint16, int, *uint16, *uint64) int { return 0 }

func indexTwoAVX2(*byte, *byte, int, uint8, uint8) int { return 0 }
