/**
 * The roles of a team, from the least to the most. Each can what those before it can, so they are a
 * ladder: nobody gives, takes or changes a role above his own.
 */
export const teamRoles = ['member', 'readAll', 'editAll', 'owner'] as const;
export type TeamRole = (typeof teamRoles)[number];

/** Whether the holder of one role may give and take the other. */
export const covers = (own: TeamRole | undefined, other: TeamRole): boolean =>
  own !== undefined && teamRoles.indexOf(other) <= teamRoles.indexOf(own);
