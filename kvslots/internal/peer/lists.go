package peer

import "slices"

func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

func drop[K, T comparable](lists map[K][]T, k K, x T) {
	if left := without(lists[k], x); len(left) > 0 {
		lists[k] = left
	} else {
		delete(lists, k)
	}
}

func without[T comparable](list []T, x T) []T {
	if i := slices.Index(list, x); i >= 0 {
		return slices.Concat(list[:i], list[i+1:])
	}
	return list
}
