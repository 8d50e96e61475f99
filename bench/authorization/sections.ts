/** Sections of the report that are measured by runs of their own, and stay when the rest is written anew. */
import { readFile, writeFile } from 'node:fs/promises';

const headings = [
  '## Creating with rights',
  '## Checks over HTTP',
  '## Own records over HTTP',
  '## Pages over HTTP',
] as const;
export type OwnSection = (typeof headings)[number];

/** A report in two: without its section under a heading, and that section, empty where there is none. */
function split(report: string, heading: string): readonly [rest: string, section: string] {
  const start = report.indexOf(heading);
  if (start < 0) return [report, ''];
  const next = report.indexOf('\n## ', start + heading.length);
  const end = next < 0 ? report.length : next + 1;
  return [report.slice(0, start) + report.slice(end), report.slice(start, end)];
}

/** A new report with the own sections of the one before. */
export async function writeKeepingSections(file: URL, text: string): Promise<void> {
  const before = await readFile(file, 'utf8').catch(() => '');
  const kept = headings.map((heading) => split(before, heading)[1].trimEnd()).filter(Boolean);
  await writeFile(file, `${[text.trimEnd(), ...kept].join('\n\n')}\n`);
}

/** Puts a section at the end of the report, in the place of the one before. `text`: what follows the heading. */
export async function writeSection(file: URL, heading: OwnSection, text: string): Promise<void> {
  const [rest] = split(await readFile(file, 'utf8'), heading);
  await writeFile(file, `${rest.trimEnd()}\n\n${heading}\n\n${text.trim()}\n`);
}

/** What a goal came to. */
export const verdict = (met: boolean): string => (met ? 'met' : '**missed**');
