/** Why a question has no answer. None of these is ever turned into "allowed". */
import { defineErrors } from '../../../kernel/errors.ts';
import { limits } from './limits.ts';

export const engineErrors = defineErrors({
  DEPTH_LIMIT: [400, `The answer hangs on objects more than ${limits.depth} steps away; make the hierarchy flatter`],
  BREADTH_LIMIT: [400, `This question touches more than ${limits.tuples} relations; ask about a narrower resource`],
  CONTEXT_MISSING: [400, 'The answer hangs on values that the request did not give'],
  PERMISSION_SET_TOO_LARGE: [
    400,
    `This subject reaches more than ${limits.reached} objects on the way; ask for a narrower type or check single objects`,
  ],
  CURSOR_INVALID: [400, 'cursor: take it unchanged from the page before, with the same question'],
});
