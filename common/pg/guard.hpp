/*
 * Where C++ exceptions and the server's longjmp meet.
 *
 * entry() is the whole body of every function that the server calls: nothing thrown leaves it.
 * call() runs a piece of server code (a leaf: plain data only, may ereport) so that an ERROR becomes
 * a pg::Error, through which destructors run. Only run_protected() uses PG_TRY.
 *
 * Zone: bridge.
 */
#pragma once

#include <exception>
#include <new>
#include <type_traits>
#include <utility>

#include "pg/postgres.hpp"

namespace schemasync::pg {

/* An ERROR of the server on its way through C++ frames. Holds the copied ErrorData (in the context that
 * was current at call()); the server's error state is already flushed. */
class Error {
  public:
	explicit Error(ErrorData *data_) : data(data_) {}
	ErrorData *data;
};

/*
 * Runs body(arg) under PG_TRY.
 *
 * returns: nullptr, or the error that body raised: copied into the memory context that was current at
 *          the call, which is current again; the server's error stack is flushed.
 */
ErrorData *run_protected(void (*body)(void *), void *arg);

/* Calls f, a leaf; throws pg::Error where it raises an ERROR. What f returns must be trivially destructible. */
template <typename F>
auto
call(F &&f) -> std::invoke_result_t<F>
{
	using Result = std::invoke_result_t<F>;
	if constexpr (std::is_void_v<Result>) {
		if (ErrorData *error = run_protected([](void *arg) { (*static_cast<std::remove_reference_t<F> *>(arg))(); }, &f))
			throw Error(error);
	} else {
		static_assert(std::is_trivially_destructible_v<Result>, "a leaf returns plain data");
		struct Frame {
			std::remove_reference_t<F> *f;
			Result result;
		} frame{&f, Result{}};
		if (ErrorData *error = run_protected(
		        [](void *arg) {
			        auto *frame_ = static_cast<Frame *>(arg);
			        frame_->result = (*frame_->f)();
		        },
		        &frame))
			throw Error(error);
		return frame.result;
	}
}

/* What entry() found in its handler, as plain data: raised after the handler was left. */
struct Caught {
	ErrorData *error = nullptr;
	bool out_of_memory = false;
	char message[512] = "";
};

/* Fills caught from the exception in flight; to be called inside a catch block only. Never throws or raises. */
void describe_current_exception(Caught &caught) noexcept;

/* Raises what was caught as an ERROR. */
[[noreturn]] void raise(const Caught &caught);

/* Runs f, the body of a function that the server calls; every exception leaves it as an ERROR. */
template <typename F>
auto
entry(F &&f) -> std::invoke_result_t<F>
{
	Caught caught;
	try {
		return f();
	} catch (...) {
		describe_current_exception(caught);
	}
	raise(caught);
}

} // namespace schemasync::pg
