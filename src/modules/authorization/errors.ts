/** What can go wrong with permissions. Problems of the input itself are `INVALID_ARGUMENTS` with their place. */
import { defineErrors } from '../../kernel/errors.ts';

export const authorizationErrors = defineErrors({
  SCOPE_REFUSED: [403, 'You may not act for this scope'],
  SHARING_REFUSED: [403, 'You may not share this, or not in this way'],
  SHARES_FULL: [409, 'This is shared with as many as can be: share it with a group instead'],
  RELATION_NOT_FOUND: [404, 'There is no such relation'],
  PERMISSION_NOT_FOUND: [404, 'There is no such permission'],
  RESOURCE_NOT_FOUND: [404, 'There is no such resource definition'],
  ROLE_NOT_FOUND: [404, 'There is no such role'],
  RULE_NOT_FOUND: [404, 'There is no such rule'],
  ROLE_EXISTS: [409, 'A role of this name exists already'],
  RULE_EXISTS: [409, 'A rule that says the same exists already'],
  RESOURCE_MISMATCH: [409, 'This version is stored with another content: raise the version'],
  RESOURCE_IN_USE: [
    409,
    'Stored relations or other definitions need what this would take away; force=true does it all the same',
  ],
  RESOURCE_BUILT_IN: [409, 'The platform needs this definition'],
  RESOURCE_INCOMPATIBLE: [409, 'The stored definition of this name does not fit records'],
  STREAM_LIMIT_EXCEEDED: [503, 'Too many streams of changes are open: try again in a moment'],
  CHANGES_GONE: [
    409,
    'Changes since this sequence are no longer kept: read the relations anew, then go on from the present position',
  ],
});
