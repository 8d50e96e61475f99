/**
 * The hooks and functions that caused a job are kept with its data, so that what the job does counts as theirs: code that
 * causes itself by way of a job is found out like any other.
 */
import { currentCauses } from '../hooks/hooks.ts';

const CAUSES = '~causes';

type Data = Readonly<Record<string, unknown>>;

export function withCauses(data: Data): Record<string, unknown> {
  const causes = currentCauses();
  return causes.length === 0 ? { ...data } : { ...data, [CAUSES]: [...causes] };
}

const isData = (stored: unknown): stored is Data =>
  typeof stored === 'object' && stored !== null && !Array.isArray(stored);

/** What a job was given, and what caused it. */
export function partsOfData(stored: unknown): {
  readonly data: unknown;
  readonly causes: readonly string[];
} {
  if (!isData(stored) || !(CAUSES in stored)) return { data: stored, causes: [] };
  const { [CAUSES]: causes, ...data } = stored;
  return { data, causes: Array.isArray(causes) ? causes.map(String) : [] };
}
