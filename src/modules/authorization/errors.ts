/** What can go wrong with permissions. Problems of the input itself are `INVALID_ARGUMENTS` with their place. */
import { defineErrors } from '../../kernel/errors.ts';

export const authorizationErrors = defineErrors({
  SCOPE_REFUSED: [403, 'You may not act for this scope'],
  SHARING_REFUSED: [403, 'You may not share this, or not in this way'],
  SHARES_FULL: [409, 'This has the maximum number of shares: share it with a group instead'],
  RELATION_NOT_FOUND: [404, 'There is no such relation'],
  PERMISSION_NOT_FOUND: [404, 'There is no such permission'],
  RESOURCE_NOT_FOUND: [404, 'There is no such resource definition'],
  ROLE_NOT_FOUND: [404, 'There is no such role'],
  RULE_NOT_FOUND: [404, 'There is no such rule'],
  ROLE_EXISTS: [409, 'A role of this name exists already'],
  RULE_EXISTS: [409, 'A rule that says the same exists already'],
  RESOURCE_MISMATCH: [409, 'This version is stored with different content: raise the version'],
  RESOURCE_IN_USE: [
    409,
    'Stored relations or other definitions use what this would remove: force=true removes it anyway',
  ],
  RESOURCE_BUILT_IN: [409, 'The platform needs this definition'],
  RESOURCE_INCOMPATIBLE: [409, 'The stored definition of this name does not fit records'],
  STREAM_LIMIT_EXCEEDED: [503, 'Too many streams of changes are open: try again in a moment'],
  CHANGES_GONE: [
    409,
    'Changes since this sequence are no longer kept: read the relations again, then continue from the current position',
  ],
});
