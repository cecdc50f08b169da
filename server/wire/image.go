package wire

import "image"

// Image returns a field that is an image: a uint8 array of shape (height, width, 3).
func (f *Frame) Image(key string) (*image.RGBA, error) {
	v := f.Get(key)
	if v == nil {
		return nil, Errorf(BadField, "field %s is missing", key)
	}
	var a Array
	if err := parseArray(v, &a); err != nil {
		return nil, err
	}
	if a.DType != Uint8 || a.NDim != 3 || a.Sides[2] != 3 || a.Len() == 0 {
		return nil, Errorf(BadField, "an image of shape %v and dtype %s, want (height, width, 3) uint8", a.Shape(), a.DType)
	}
	img := image.NewRGBA(image.Rect(0, 0, int(a.Sides[1]), int(a.Sides[0])))
	for i := range a.Len() / 3 {
		copy(img.Pix[4*i:], a.Data[3*i:3*i+3])
		img.Pix[4*i+3] = 0xff
	}
	return img, nil
}
