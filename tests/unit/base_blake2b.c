#include "base/blake2b.h"

#include "tests/tap.h"

static const char *digest_of(const void *bytes, size_t size, size_t part)
{
	static char text[2 * BLAKE2B_BYTES + 1];
	uint8_t digest[BLAKE2B_BYTES];
	struct blake2b hash;
	blake2b_init(&hash);
	for (size_t at = 0; at < size; at += part)
		blake2b_add(&hash, (const uint8_t *)bytes + at, size - at < part ? size - at : part);
	blake2b_end(&hash, digest);
	for (size_t i = 0; i < BLAKE2B_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
	return text;
}

// What Python's hashlib.blake2b(…, digest_size=32) says.
int main(void)
{
	static uint8_t bytes[1000];
	static const struct { size_t size; const char *digest; } known[] = {
		{ 0, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8" },
		{ 1, "03170a2e7597b7b7e3d84c05391d139a62b157e78786d8c082f29dcf4c111314" },
		{ 127, "4ff62e7c4c43fe101a078479c48836be4907d9d498dcc577ca89d694b2c11f9b" },
		{ 128, "14696d2a98d9f8a280da8b132b1045b345e1033759c6b02fcc4ee885c8ae7c37" },
		{ 129, "3934215260b1039be9d9d2b073b059bcd50120c327a22af93eb4d98cf821c14c" },
		{ 256, "3d0cb2693dfbac42af5a6cc960953fea8714aa39c4bcd054ef61d6b5e98ade4a" },
		{ 257, "63cb41934eb22ceb359755501ea299abcd784306baf8845ad6b97ff0828b7cfe" },
		{ 1000, "6ac4bea923678eb024090384d6e767b5870f849057dc19b172d8d9f2df30bf8e" },
	};
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	is_str(digest_of("abc", 3, 1), "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319", "abc");
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		is_str(digest_of(bytes, known[i].size, sizeof(bytes)), known[i].digest, "%zu bytes", known[i].size);
		unsigned differs = 0;
		for (size_t part = 1; part < 300; part += 13)
			differs += strcmp(digest_of(bytes, known[i].size, part), known[i].digest) != 0;
		is_u64(differs, 0, "in parts of any size");
	}
	return tap_done();
}
