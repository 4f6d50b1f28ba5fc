package picture

import "image/color"

func fromRGB(r, g, b int) (y, cb, cr uint8) {
	return color.RGBToYCbCr(uint8(r), uint8(g), uint8(b))
}

// fromCMYK converts a sample of four components.
func (d *jpegReader) fromCMYK(c, m, y, k int) (uint8, uint8, uint8) {
	if d.adobe == 2 { // YCCK
		r, g, b := color.YCbCrToRGB(uint8(c), uint8(m), uint8(y))
		c, m, y = int(r), int(g), int(b)
	}
	return fromRGB(c*k/255, m*k/255, y*k/255)
}
