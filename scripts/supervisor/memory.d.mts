/** Flags of V8 for the process that runs the platform. */
export declare const platformFlags: readonly string[];
/** Environment variables of the same process, for the system's allocator. */
export declare const memoryEnvironment: Readonly<Record<string, string>>;
