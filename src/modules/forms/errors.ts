/** What can go wrong with forms. */
import { defineErrors, errors, type PenstockError, type Problem } from '../../kernel/errors.ts';

export const formErrors = defineErrors({
  FORM_INVALID: [400, 'The form definition is not valid'],
  SUBMISSION_INVALID: [400, 'Some fields are not filled in as the form wants them'],
  FORM_CAPTCHA_REQUIRED: [403, 'Solve the captcha and send its answer as captchaToken'],
  FORM_CAPTCHA_FAILED: [403, 'The captcha was not solved: try again'],
  FORM_CHALLENGE_REQUIRED: [403, 'Solve a challenge first: ask for one, and send its solution'],
  FORM_CHALLENGE_FAILED: [
    403,
    'The challenge is not solved, too old, or was used: ask for a new one',
  ],
  FORM_LINK_INVALID: [403, 'This link is not valid or has expired'],
  FORM_NOT_FOUND: [404, 'There is no such form'],
  SUBMISSION_NOT_FOUND: [404, 'There is no such submission'],
  CONFIRMATION_NOT_FOUND: [404, 'This link is not valid or has expired: fill in the form again'],
  FORM_EXISTS: [409, 'A form with this name exists already'],
  FORM_CLOSED: [410, 'This form takes no more submissions'],
});

/** A problem under the names of this module (`field`, `code`) and under those of the platform. */
export interface FieldProblem extends Problem {
  readonly field: string;
  readonly code: string;
}

export const fieldProblem = (field: string, code: string, message: string): FieldProblem => ({
  path: field,
  rule: code,
  message,
  field,
  code,
});

/** A refusal that names everything that is wrong with a submission. */
export const invalidSubmission = (...problems: readonly FieldProblem[]): PenstockError =>
  formErrors.SUBMISSION_INVALID({
    ...(problems[0] && { message: `${problems[0].field}: ${problems[0].message}` }),
    errors: problems,
  });

/** Throws what is wrong with a definition. */
export function refuseForm(problems: readonly Problem[]): void {
  const [first] = problems;
  if (!first) return;
  throw formErrors.FORM_INVALID({ message: `${first.path}: ${first.message}`, errors: problems });
}

/** Something that this form needs does not run. */
export const needs = (what: string) =>
  errors.UNAVAILABLE({ message: `${what} is not available now: try again shortly`, retryAfter: 5 });
