package picture

import "image"

// This file decodes baseline JPEGs at full size with exactly the results of libjpeg: nearly
// all software hashes pictures with it, and a hash depends on rounding.

// decodeJPEG decodes a baseline JPEG as far as possible. It returns nil for others, which the
// standard library decodes.
func decodeJPEG(b []byte) image.Image {
	head, err := Look(b)
	if err != nil {
		return nil
	}
	d := &jpegReader{in: b, at: 2, head: head, quants64: new([4][64]int32)}
	_ = d.run() // use the part that was read
	if d.progressive || !d.isPartial() {
		return nil
	}
	a := &d.part[0]
	frame := image.Rect(0, 0, head.Width, head.Height)
	if d.parts == 1 {
		return &image.Gray{Pix: a.whole, Stride: 8 * a.w, Rect: frame}
	}
	p, q := &d.part[1], &d.part[2]
	ratio, ok := map[[2]uint8]image.YCbCrSubsampleRatio{
		{1, 1}: image.YCbCrSubsampleRatio444, {2, 1}: image.YCbCrSubsampleRatio422, {2, 2}: image.YCbCrSubsampleRatio420,
	}[[2]uint8{a.h, a.v}]
	if ok && d.parts == 3 && !d.isRGB() && p.h == 1 && p.v == 1 && q.h == 1 && q.v == 1 {
		return &image.YCbCr{Y: a.whole, Cb: p.whole, Cr: q.whole, YStride: 8 * a.w, CStride: 8 * p.w, SubsampleRatio: ratio, Rect: frame}
	}
	return d.unusual(frame)
}

// unusual assembles a picture whose components are not luma and chroma, or are subsampled by
// another factor than two.
func (d *jpegReader) unusual(frame image.Rectangle) image.Image {
	m := image.NewYCbCr(frame, image.YCbCrSubsampleRatio444)
	mh, mv := d.maxSampling()
	for y := range frame.Max.Y {
		for x := range frame.Max.X {
			var v [maxParts]uint8
			for k := range d.parts {
				c := &d.part[k]
				v[k] = c.whole[y*int(c.v)/mv*8*c.w+x*int(c.h)/mh]
			}
			i := y*m.YStride + x
			m.Y[i], m.Cb[i], m.Cr[i] = d.colour(v)
		}
	}
	return m
}

// zigzag is the position of each coefficient in a block (ITU-T T.81, figure 5).
var zigzag = [64]uint8{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
}

// wholeBlock reads the rest of a block whose first coefficient is c.last, and decodes the
// block.
func (d *jpegReader) wholeBlock(c *component, at int) error {
	var block [64]int32
	q := &d.quants64[c.quant]
	block[0] = c.last * q[0]
	t := &d.acTables[c.acTable]
	for k := 1; k < 64; k++ {
		if d.nbits < 32 {
			d.fill()
		}
		s, ok := d.symbol(t)
		if !ok {
			return ErrFormat
		}
		size := uint(s & 15)
		if size == 0 {
			if s != 0xf0 {
				break
			}
			k += 15
			continue
		}
		if k += int(s >> 4); k > 63 {
			return ErrFormat
		}
		v := int32(d.bits >> (64 - size))
		d.bits <<= size
		d.nbits -= min(size, d.nbits)
		if v < 1<<(size-1) {
			v += -1<<size + 1
		}
		block[zigzag[k]] = v * q[zigzag[k]]
	}
	for i := range 8 {
		transform(block[i:], 8, 11)
	}
	stride := 8 * c.w
	dst := c.whole[at/c.w*8*stride+at%c.w*8:]
	for y := range 8 {
		row := block[8*y : 8*y+8]
		transform(row, 1, 18)
		for x, v := range row {
			dst[y*stride+x] = uint8(max(0, min(255, v+128)))
		}
	}
	return nil
}

// transform computes the inverse discrete cosine transform of eight numbers that are step
// apart, after Loeffler, Ligtenberg and Moschytz (1989), in fixed point with 13 bits. It
// shifts the results down.
func transform(b []int32, step int, shift uint) {
	x0, x1, x2, x3 := b[0], b[step], b[2*step], b[3*step]
	x4, x5, x6, x7 := b[4*step], b[5*step], b[6*step], b[7*step]
	z := (x2 + x6) * 4433
	e2, e3 := z-x6*15137, z+x2*6270
	e0, e1 := (x0+x4)<<13, (x0-x4)<<13
	a0, a3, a1, a2 := e0+e3, e0-e3, e1+e2, e1-e2
	z1, z2, z3, z4 := (x7+x1)*-7373, (x5+x3)*-20995, x7+x3, x5+x1
	z5 := (z3 + z4) * 9633
	z3, z4 = z3*-16069+z5, z4*-3196+z5
	o0, o1, o2, o3 := x7*2446+z1+z3, x5*16819+z2+z4, x3*25172+z2+z3, x1*12299+z1+z4
	half := int32(1) << (shift - 1)
	b[0], b[7*step] = (a0+o3+half)>>shift, (a0-o3+half)>>shift
	b[step], b[6*step] = (a1+o2+half)>>shift, (a1-o2+half)>>shift
	b[2*step], b[5*step] = (a2+o1+half)>>shift, (a2-o1+half)>>shift
	b[3*step], b[4*step] = (a3+o0+half)>>shift, (a3-o0+half)>>shift
}
