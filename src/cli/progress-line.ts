/** Says how far a long work is: one line of the terminal that changes, or now and then a new line where output goes elsewhere. */
import type { Progress } from '../backup/format.ts';

export interface ProgressLine {
  readonly show: Progress;
  /** Clears the line. */
  end(): void;
}

const TERMINAL_INTERVAL_MS = 100;
/** A log is read later, and short works need no word there. */
const LOG_INTERVAL_MS = 10_000;

type Output = Pick<NodeJS.WriteStream, 'isTTY' | 'columns' | 'write'>;

export function createProgressLine(out: Output = process.stderr): ProgressLine {
  const interval = out.isTTY ? TERMINAL_INTERVAL_MS : LOG_INTERVAL_MS;
  let last = out.isTTY ? 0 : Date.now();
  let isVisible = false;
  const clear = (): void => {
    if (isVisible) out.write('\r\x1b[K');
    isVisible = false;
  };
  return {
    show({ what, done, total }) {
      if (Date.now() - last < interval) return;
      last = Date.now();
      const share =
        total > 0
          ? `${String(Math.min(100, Math.floor((done / total) * 100))).padStart(3)} %`
          : sizeText(done);
      const text = `${share}  ${what}`;
      if (!out.isTTY) return void out.write(`${text}\n`);
      clear();
      out.write(text.slice(0, (out.columns ?? 80) - 1));
      isVisible = true;
    },
    end: clear,
  };
}

const units = ['bytes', 'KB', 'MB', 'GB', 'TB'];

/** Such as `12.3 MB`. */
export function sizeText(bytes: number): string {
  const power = bytes < 1_000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3));
  const value = bytes / 1_000 ** power;
  return `${power === 0 ? value : value.toFixed(1)} ${units[power]}`;
}
