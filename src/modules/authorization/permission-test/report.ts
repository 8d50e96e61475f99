/** The outcome of permission tests, for people. */
import type { Problem } from '../../../kernel/errors.ts';
import type { Reason } from '../engine/engine.ts';
import type { Failure, PermissionTestResult } from './run.ts';

/** Lines of one explanation that are shown. */
const maxLines = 40;

export const problemLines = (problems: readonly Problem[]): readonly string[] =>
  problems.map(({ path, message }) => `  ${path}: ${message}`);

export const resultLines = ({ assertions, failures }: PermissionTestResult): readonly string[] => [
  ...failures.flatMap(failureLines),
  `  ${assertions - failures.length} of ${assertions} assertions hold`,
];

function failureLines({ test, about, message, reason }: Failure): readonly string[] {
  const why = reason ? reasonLines(reason, '      ') : [];
  const shown = why.length > maxLines ? [...why.slice(0, maxLines), '      ...'] : why;
  return [`  FAILED ${test}`, `    ${about}: ${message}`, ...shown];
}

/** A tree of reasons, indented. */
function reasonLines({ allowed, about, because, tuple, parts }: Reason, indent: string): readonly string[] {
  const line = `${indent}${allowed ? 'yes' : 'no '} ${about}: ${because}${tuple === undefined ? '' : ` (${tuple})`}`;
  return [line, ...parts.flatMap((part) => reasonLines(part, `${indent}  `))];
}
