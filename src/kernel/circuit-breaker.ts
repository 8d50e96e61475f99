/**
 * Keeps a server that hangs from holding up everybody who asks it. Each call has a short time; after a
 * call that failed nobody waits for that server until it has answered a ping again.
 */
export interface CircuitBreaker {
  /** The outcome of `work`, or `undefined` when it failed, took too long, or the server is known to be away. */
  attempt<T extends object>(work: () => Promise<T>): Promise<T | undefined>;
}

export interface CircuitBreakerOptions {
  /** Milliseconds that a call may take. */
  readonly timeoutMs: number;
  /** Milliseconds from one unanswered ping to the next. */
  readonly restMs: number;
  /** Resolves when the server answers within `timeoutMs`. */
  readonly ping: (timeoutMs: number) => Promise<void>;
  /** Failures that are an answer, and pass on to the caller. */
  readonly isAnswer?: (error: unknown) => boolean;
}

const late = Symbol('late');

export function createCircuitBreaker({ timeoutMs, restMs, ping, isAnswer = () => false }: CircuitBreakerOptions): CircuitBreaker {
  let open = false;
  let pinging = false;
  let restUntil = 0;

  const fail = (): undefined => {
    open = true;
    restUntil = performance.now() + restMs;
    return undefined;
  };
  /** Nobody waits for the ping: who asks meanwhile goes on without the server. */
  const lookAgain = (): void => {
    if (pinging || performance.now() < restUntil) return;
    pinging = true;
    const end = (answered: boolean): void => {
      pinging = false;
      if (answered) open = false;
      else fail();
    };
    ping(timeoutMs).then(
      () => end(true),
      () => end(false),
    );
  };

  return {
    async attempt(work) {
      if (open) {
        lookAgain();
        return undefined;
      }
      const { promise, resolve } = Promise.withResolvers<typeof late>();
      const timer = setTimeout(resolve, timeoutMs, late);
      try {
        const outcome = await Promise.race([work(), promise]);
        return outcome === late ? fail() : outcome;
      } catch (error) {
        if (isAnswer(error)) throw error;
        return fail();
      } finally {
        clearTimeout(timer);
      }
    },
  };
}
