/** The figures as a page. */
import { writeFile } from 'node:fs/promises';
import { median } from '../statistics.ts';
import type { RouteTimes } from './measure.ts';

const ms = (value: number): string => value.toFixed(2);
const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;

/** How far the medians of two halves of the same kind lie apart: what chance alone makes. */
const noiseOf = (times: readonly number[]): number =>
  Math.abs(
    median(times.filter((_time, i) => i % 2 === 0)) -
      median(times.filter((_time, i) => i % 2 === 1)),
  );

function lineOf({ route, known, unknown }: RouteTimes): string {
  const [knownMedian, unknownMedian] = [median(known), median(unknown)];
  const difference = knownMedian - unknownMedian;
  const noise = Math.max(noiseOf(known), noiseOf(unknown));
  return row([route, ms(knownMedian), ms(unknownMedian), ms(difference), ms(noise)]);
}

export const reportOf = (
  routes: readonly RouteTimes[],
  { requests, machine }: { requests: number; machine: string },
): string => `# Does time tell who has an account?

Medians of ${requests} requests each for addresses with and without an account, shuffled, over HTTP, with a pause after each: mail is written after the answer. Milliseconds. *Noise* is how far the medians of two halves of the same kind lie apart.

Measured on ${machine}.

${row(['request', 'known', 'unknown', 'difference', 'noise'])}
${row(['---', '--:', '--:', '--:', '--:'])}
${routes.map(lineOf).join('\n')}
`;

export const writeReport = (folder: URL, report: string): Promise<void> =>
  writeFile(new URL('RESULTS.md', folder), report);
