package peer

import "slices"

// put sets m[k] to v, and makes the map if it is nil.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

// drop removes x from the list of k.
func drop[K, T comparable](lists map[K][]T, k K, x T) {
	if left := without(lists[k], x); len(left) > 0 {
		lists[k] = left
	} else {
		delete(lists, k)
	}
}

// without returns a new list without x.
func without[T comparable](list []T, x T) []T {
	if i := slices.Index(list, x); i >= 0 {
		return slices.Concat(list[:i], list[i+1:])
	}
	return list
}
