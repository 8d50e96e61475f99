/** A bell for one loop: rung as often as one likes, heard once. */
export interface Wakeup {
  ring(): void;
  /** Resolves true when rung (also if that was before), false after `timeoutMs`. */
  wait(timeoutMs: number): Promise<boolean>;
}

export function createWakeup(): Wakeup {
  let rung = false;
  let answer: ((rung: boolean) => void) | undefined;
  return {
    ring() {
      rung = true;
      answer?.(true);
    },
    async wait(timeoutMs) {
      if (!rung) {
        const { promise, resolve } = Promise.withResolvers<boolean>();
        const timer = setTimeout(resolve, timeoutMs, false);
        answer = resolve;
        await promise;
        clearTimeout(timer);
        answer = undefined;
      }
      const heard = rung;
      rung = false;
      return heard;
    },
  };
}
