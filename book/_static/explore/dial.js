export function dial() {}
