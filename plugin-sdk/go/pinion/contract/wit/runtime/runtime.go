package runtime

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"
)

type Handle struct {
	value int32
}

func (h *Handle) Use() int32 {
	if h.value == 0 {
		panic("nil handle")
	}
	return h.value
}

func (h *Handle) Take() int32 {
	if h.value == 0 {
		panic("nil handle")
	}
	value := h.value
	h.value = 0
	return value
}

func (h *Handle) Set(value int32) {
	if value == 0 {
		panic("nil handle")
	}
	if h.value != 0 {
		panic("handle already set")
	}
	h.value = value
}

func (h *Handle) TakeOrNil() int32 {
	value := h.value
	h.value = 0
	return value
}

func MakeHandle(value int32) *Handle {
	if value == 0 {
		panic("nil handle")
	}
	return &Handle{value}
}

func Allocate(pinner *runtime.Pinner, size, align uintptr) unsafe.Pointer {
	pointer := allocateRaw(size, align)
	pinner.Pin(pointer)
	return pointer
}

func allocateRaw(size, align uintptr) unsafe.Pointer {
	if size == 0 {
		return nil
	}

	if size%align != 0 {
		panic(fmt.Sprintf("size %v is not compatible with alignment %v", size, align))
	}

	switch align {
	case 1:
		return unsafe.Pointer(unsafe.SliceData(make([]uint8, size)))
	case 2:
		return unsafe.Pointer(unsafe.SliceData(make([]uint16, size/align)))
	case 4:
		return unsafe.Pointer(unsafe.SliceData(make([]uint32, size/align)))
	case 8:
		return unsafe.Pointer(unsafe.SliceData(make([]uint64, size/align)))
	default:
		panic(fmt.Sprintf("unsupported alignment: %v", align))
	}
}

// The rest differs from the package `go.bytecodealliance.org/pkg`, whose `cabi_realloc` allocates from the heap of Go. That may
// start the garbage collector, which reads the clock, and a component traps if it calls an import while the host allocates in
// it. So the host gets memory outside of that heap, and the bindings copy what they read from it.

//go:linkname sbrk runtime.sbrk
func sbrk(n uintptr) unsafe.Pointer

// The unit of sbrk.
const pageSize = 64 << 10

// The block that the host writes to, as addresses, which the garbage collector ignores.
var start, next, end uintptr

// The calls that read the block; when the last one is done, it is empty.
var readers int

// Whether the package is initialized. What is allocated before that is kept: it belongs to the adapter for WASI.
var isInitialized bool

func init() {
	isInitialized = true
}

// Receive keeps what the host writes until [Received]. The bindings call it before an import is called, and before the
// arguments of an export are read.
func Receive() {
	readers++
}

// Received ends [Receive].
func Received() {
	readers--
	if readers == 0 {
		next = start
	}
}

// String copies a string that the host wrote.
func String(data *uint8, length uint32) string {
	return strings.Clone(unsafe.String(data, length))
}

// Slice copies a list that the host wrote.
func Slice[T any](data *T, length uint32) []T {
	return append([]T{}, unsafe.Slice(data, length)...)
}

// Allocates without calls of imports and without the heap of Go, which may not even exist yet.
//
//nolint:unused
//go:wasmexport cabi_realloc
func cabiRealloc(oldPointer unsafe.Pointer, oldSize, align, newSize uintptr) unsafe.Pointer {
	if oldPointer != nil || oldSize != 0 {
		panic("todo")
	}
	if !isInitialized {
		return sbrk(newSize)
	}
	place := aligned(next, align)
	if place+newSize > end {
		grow(newSize)
		place = aligned(next, align)
	}
	next = place + newSize
	return unsafe.Pointer(place)
}

// Makes room for size bytes at next. A block that cannot be extended is given up for one of at least twice its size, so that
// those given up together never take more than the one in use.
func grow(size uintptr) {
	size = aligned(size, pageSize)
	isLast := uintptr(sbrk(0)) == end
	if !isLast {
		size = max(size, 2*(end-start))
	}
	block := uintptr(sbrk(size))
	if block == 0 {
		panic("out of memory")
	}
	if !isLast {
		start, next = block, block
	}
	end = block + size
}

func aligned(address, align uintptr) uintptr {
	return (address + align - 1) &^ (align - 1)
}
