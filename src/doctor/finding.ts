/** What a check of the installation found. */

/** `note` is worth knowing, `warning` will hurt some day, `problem` hurts now. */
export type Severity = 'ok' | 'note' | 'warning' | 'problem';

export interface Finding {
  readonly severity: Severity;
  /** What was looked at, in two or three words. */
  readonly subject: string;
  /** What was found, in a sentence. */
  readonly message: string;
  /** What to do about it. */
  readonly advice?: string;
}

export const ok = (subject: string, message: string): Finding => ({
  severity: 'ok',
  subject,
  message,
});
export const note = (subject: string, message: string, advice?: string): Finding =>
  found('note', subject, message, advice);
export const warning = (subject: string, message: string, advice: string): Finding =>
  found('warning', subject, message, advice);
export const problem = (subject: string, message: string, advice: string): Finding =>
  found('problem', subject, message, advice);

const found = (
  severity: Severity,
  subject: string,
  message: string,
  advice: string | undefined,
): Finding => ({
  severity,
  subject,
  message,
  ...(advice === undefined ? {} : { advice }),
});
