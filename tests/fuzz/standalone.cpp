/*
 * Runs a fuzz target without libFuzzer: all seeds, then mutations of them from a fixed start, so that a short run in
 * ./check takes the same way each time. tests/fuzz/long builds the same targets with libFuzzer.
 *
 *     TARGET CORPUS-FOLDER [RUNS [START]]
 */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

namespace {

const char *interesting[] = {"\"", "'", "$$", ";--", "\\", "null", "[", "]", "{", "}", "-1", "4294967296", "1e999", "\xff\xff\xff\xff",
                             "\xf0\x9f\x99\x82", "\"oid\":0", "DROP TABLE", "\x7f\xff\xff\xff"};

std::string
mutate(const std::vector<std::string> &seeds, std::mt19937 &random)
{
	auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % (n == 0 ? 1 : n)); };
	std::string text = seeds[below(seeds.size())];

	for (std::size_t times = 1 + below(6); times > 0; times--) {
		std::size_t at = below(text.size() + 1), length = below(16);
		switch (below(8)) {
		case 0:
			text.erase(at, length);
			break;
		case 1:
			text.insert(at, text.substr(below(text.size() + 1), length));
			break;
		case 2:
			text.insert(at, interesting[below(std::size(interesting))]);
			break;
		case 3:
			text.resize(at);
			break;
		case 4: { /* the end of another */
			const std::string &other = seeds[below(seeds.size())];
			text = text.substr(0, at) + other.substr(below(other.size() + 1));
			break;
		}
		case 5: /* one piece of another instead of a piece of this */
			text.replace(at, length, seeds[below(seeds.size())].substr(0, below(64)));
			break;
		default:
			if (at < text.size())
				text[at] = static_cast<char>(below(2) == 0 ? text[at] ^ (1 << below(8)) : static_cast<int>(below(256)));
		}
	}
	return text;
}

} // namespace

int
main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	std::vector<std::string> seeds;
	for (const auto &entry : std::filesystem::directory_iterator(argv[1])) {
		std::ifstream file(entry.path(), std::ios::binary);
		seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
	}
	if (seeds.empty())
		return 2;
	std::sort(seeds.begin(), seeds.end());

	const long runs = argc > 2 ? std::atol(argv[2]) : 20000;
	std::mt19937 random(static_cast<unsigned>(argc > 3 ? std::atol(argv[3]) : 1));
	auto run = [](const std::string &text) {
		LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t *>(text.data()), text.size());
	};
	for (const std::string &seed : seeds)
		run(seed);
	for (long i = 0; i < runs; i++) {
		std::string text = mutate(seeds, random);
		if (std::getenv("FUZZ_SAVE") != nullptr) /* the input of a crash is the last one saved */
			std::ofstream(std::getenv("FUZZ_SAVE"), std::ios::binary) << text;
		run(text);
		if (seeds.size() < 2000 && i % 50 == 0)
			seeds.push_back(text);
	}
	std::printf("%zu seeds, %ld mutations\n", seeds.size(), runs);
	return 0;
}
